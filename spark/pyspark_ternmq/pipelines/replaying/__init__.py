"""The pipeline that makes messages from the rows of a lake or of files."""
