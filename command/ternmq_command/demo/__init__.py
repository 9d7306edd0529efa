"""The demo: sends the flights of 2013 through a broker that it starts, and reads them by two consumers of one group.

This process   starts the broker and the consumers as children, sends, counts, shows progress, reports
Ledger         the rows that the broker acknowledged and those that came back; a file in the data directory for
               `--continue`
Proof          every message carries its row number; the demo succeeds only if every row came back at least once
"""

TOPIC = "departures"
GROUP = "demo-readers"
CONSUMERS = 2
