"""How a lake's files become part of a table: plain files need nothing more, Delta and Iceberg a commit of their own.

registration  what all formats can do, and files that belong to no table
marker        which format a folder has, so that it never has two
schema        the columns of the tables
evolution     which new fields and wider types a table takes
footers       what the footer of a Parquet file says of its rows
delta         by delta-rs
iceberg       by PyIceberg, in a catalog

The files are Spark's in every format. A batch is committed by the lake's manifest first (`commits.py`); a table learns
of it afterwards, as often as it takes, and notes with the files which batch of which query they are.
"""
