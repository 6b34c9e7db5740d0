"""Tables: CSV, TSV, SMI, SDF, Parquet and data frames, read and written in chunks of rows."""
