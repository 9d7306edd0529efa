"""`apache.rocketmq.v2.Admin`, the admin service that is published with the protocol: a second face of the operations
that `ternmq.admin.v1.Admin` and MessagingService have (`admin.md, The published service`).

Unknown   a field stays unset if nothing here knows it; nothing is guessed.
Bounds    answers that have no pages hold so many entries; one that was cut says so in the sentence of its status.
Ignored   `deployment_name`: a server is one deployment.
"""
