"""`ternmq send`, `receive`, `tail`, `recall` and `message`: messages, sent, received and found."""
