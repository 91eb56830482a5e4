import sys

import dlt
from dlt.sources.sql_database import sql_table

source, target = sys.argv[1:3]
# dlt wants a password, also where none is asked for.
target = target.replace("postgres@", "postgres:none@", 1)
pipeline = dlt.pipeline("gapless_lab", destination=dlt.destinations.postgres(target), dataset_name="dlt_copy")
events = sql_table(
    credentials=source.replace("postgres://", "postgresql+psycopg2://", 1),
    table="events",
    backend="pyarrow",
    reflection_level="full_with_precision",
    incremental=dlt.sources.incremental("updated_at"),
    primary_key="id",
    write_disposition="merge",
    excluded_columns=["gapless_xid"],
)
pipeline.run(events)
