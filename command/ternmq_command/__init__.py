"""The `ternmq` command, by noun. Its modules import at the top only what is cheap: any call answers within 0.3 s."""
