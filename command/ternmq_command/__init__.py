"""The `ternmq` command, a folder for each noun. Its modules import little at the top: calls start within 0.3 s."""
