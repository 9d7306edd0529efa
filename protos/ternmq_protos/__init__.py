"""The wire: generated code of `protos/`, with `.pyi` stubs; nobody edits it by hand.

`ternmq_protos.v2` is the published protocol (`apache.rocketmq.v2`), `ternmq_protos.admin_v1` our own calls for tools.
"""
