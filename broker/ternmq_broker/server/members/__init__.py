"""The members of groups that pull, as the broker hears of them from proxies."""
