"""Pages of waiting messages: timed messages and open transactions."""
