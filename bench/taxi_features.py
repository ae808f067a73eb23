"""The taxi pipeline in pyarrow: the work of load_taxi in taxi_model.h, for every peer in Python.

Durations keep their whole days, unlike those of Manta: Arrow has no modulo, and without one it is faster. 0.1% of the
trips, those that end before they begin or last for days, are judged differently.
"""

COLUMNS = [
    "tpep_pickup_datetime", "tpep_dropoff_datetime", "passenger_count", "trip_distance", "fare_amount", "tip_amount",
]  # fmt: skip
FEATURES = ["passenger_count", "trip_distance", "fare_amount", "trip_duration", "hour", "day_of_week"]
LABEL = "is_big_tip"

# How Ray Data may be told to compute them, see load_taxi in ray_cluster.py.
RAY_FORMS = {
    "array": "all features in one column",
    "columns": "a column for each feature",
    "filter": "all features in one column, filters as an expression that the reader takes over",
}


def columns_of(trips):
    """A pyarrow table of trips -> FEATURES and LABEL, as float32."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trips = trips.drop_null()
    duration = pc.seconds_between(trips["tpep_pickup_datetime"], trips["tpep_dropoff_datetime"])
    wanted = pc.less_equal(trips["passenger_count"], 4)
    wanted = pc.and_(wanted, pc.less(trips["trip_distance"], 100))
    wanted = pc.and_(wanted, pc.less(trips["fare_amount"], 1000))
    wanted = pc.and_(wanted, pc.less(duration, 4 * 60 * 60))
    trips = trips.append_column("trip_duration", duration).filter(wanted)
    pickup = trips["tpep_pickup_datetime"]
    result = {
        "passenger_count": trips["passenger_count"],
        "trip_distance": trips["trip_distance"],
        "fare_amount": trips["fare_amount"],
        "trip_duration": trips["trip_duration"],
        "hour": pc.hour(pickup),
        "day_of_week": pc.day_of_week(pickup),
        LABEL: pc.greater(trips["tip_amount"], pc.multiply(trips["fare_amount"], 0.2)),
    }
    return pa.table({name: pc.cast(column, pa.float32(), safe=False) for name, column in result.items()})


def arrays_of(trips):
    """The same as one numpy array of all features and one of the labels."""
    import numpy

    table = columns_of(trips)
    features = numpy.empty((table.num_rows, len(FEATURES)), numpy.float32)
    for i, name in enumerate(FEATURES):
        features[:, i] = table[name].to_numpy()
    return {"features": features, LABEL: table[LABEL].to_numpy()}


def scanner(path):
    """pyarrow's scanner of a file or folder with the same expressions pushed down. Arrow uses as many threads as there
    are processors."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    pickup, dropoff, passengers, distance, fare, tip = map(ds.field, COLUMNS)
    duration = pc.seconds_between(pickup, dropoff)
    columns = {
        "passenger_count": passengers,
        "trip_distance": distance,
        "fare_amount": fare,
        "trip_duration": duration,
        "hour": pc.hour(pickup),
        "day_of_week": pc.day_of_week(pickup),
        LABEL: tip > pc.scalar(0.2) * fare,
    }
    wanted = (passengers <= 4) & (distance < 100) & (fare < 1000) & (duration < 4 * 60 * 60)
    for name in COLUMNS:
        wanted = wanted & ds.field(name).is_valid()
    return ds.dataset(path, format="parquet").scanner(columns=columns, filter=wanted)
