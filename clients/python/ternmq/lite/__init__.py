"""How consumers of lite topics work inside; users import them from `ternmq`."""
