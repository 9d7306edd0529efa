"""`ternmq registry`: the schema, the rebuilding and the keys of a cluster's registry."""
