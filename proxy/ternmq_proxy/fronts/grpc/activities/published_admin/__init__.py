"""`apache.rocketmq.v2.Admin`, the admin service that is published with the protocol: a second face of the operations
that `ternmq.admin.v1.Admin` and MessagingService have (`admin.md, The published service`).

Unknown   a field stays unset if nothing here knows it; nothing is guessed.
Bounds    answers without pages have so many entries; the status of a cut one says so.
Ignored   `deployment_name`: a server is one deployment.
"""
