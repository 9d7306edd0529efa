"""Snapshots of a path: the files and live rows of a table at one version, or the files of a folder.

finding   which of them a path is: never a listing of a table's files, most of which may not be part of it any more
snapshot  the files of one moment, and whether those of an earlier plan are still there
folder    plain files: every one that Spark would read
delta     a Delta table, by delta-rs
iceberg   an Iceberg table, by PyIceberg and its catalog
reading   the rows, as Spark reads them: without those that deletion vectors or position deletes name
opening   all of that for the paths of a pipeline
"""
