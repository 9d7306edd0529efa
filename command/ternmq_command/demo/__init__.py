"""The demo: the flights of 2013 as messages, through a broker that it starts, read by two consumers of one group.

This process   starts the broker and the consumers as children, sends, counts, shows progress, reports
Ledger         which rows the broker acknowledged and which came back; kept in the data directory for `--continue`
Proof          every message carries its row number; the demo succeeds only if every row came back at least once
"""

TOPIC = "departures"
GROUP = "demo-readers"
CONSUMERS = 2
