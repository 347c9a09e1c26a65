from tests.kit.rounds import rounds

collect_ignore = rounds(["test_real_airflow.py"], long=[])
