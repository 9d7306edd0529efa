"""Reading topics: the driver settles what is read (`batch`, `stream`), the executors read it (`reading`)."""
