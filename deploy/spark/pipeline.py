"""The program for spark-submit in the Spark image: runs `ternmq` with its arguments, such as `pipeline lake ...`."""

from ternmq_command.main import main

main()
