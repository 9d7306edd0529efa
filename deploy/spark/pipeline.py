"""What spark-submit runs in the Spark image: `ternmq` with the words behind this file, such as `pipeline lake ...`."""

from ternmq_command.main import main

main()
