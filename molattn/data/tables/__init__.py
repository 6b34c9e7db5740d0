"""Tables: CSV, TSV, SMI, SDF, Parquet, Excel and data frames, read and written in chunks of rows."""
