"""Updates the indexes from the commit log when a store is opened."""
