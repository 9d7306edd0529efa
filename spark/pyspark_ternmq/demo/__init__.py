"""The demo's second part: the flights of 2013, once they are in a lake, as three tables and a chart of each.

flights     the tables, by Spark SQL over the lake
charts      a PNG of each, by matplotlib, without Spark
findings    what the charts' titles say, computed from the tables' rows
style       colours, fonts and the frame that the charts share
"""
