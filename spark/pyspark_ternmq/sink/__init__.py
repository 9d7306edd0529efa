"""The sink: rows of Spark become messages.

writer    what Spark calls; one task writes one partition
options   the options of a write
columns   the meaning of each column, checked on the driver
rows      Arrow batches become messages, messages become requests
ids       message ids that come out the same when a task runs again
producers one producer a task, and one for each queue that rows chose
sending   requests on their way: how many at a time, in which order, what happens when one fails
pace      the limit of rows per second
errors    what went wrong, with the row
"""
