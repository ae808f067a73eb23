"""The taxi pipeline on Ray Data, and its columns: the work of load_dataset in taxi_figures.cc."""

COLUMNS = [
    "tpep_pickup_datetime", "tpep_dropoff_datetime", "passenger_count", "trip_distance", "fare_amount", "tip_amount",
]  # fmt: skip
FEATURES = ["passenger_count", "trip_distance", "fare_amount", "trip_duration", "hour", "day_of_week"]
LABEL = "is_big_tip"


def features_of(trips):
    """A pandas batch of trips -> FEATURES and LABEL, as float32."""
    trips = trips.dropna(subset=COLUMNS)
    trips = trips[(trips.passenger_count <= 4) & (trips.trip_distance < 100) & (trips.fare_amount < 1000)]
    duration = (trips.tpep_dropoff_datetime - trips.tpep_pickup_datetime).dt.seconds
    short = duration < 4 * 60 * 60
    trips, duration = trips[short], duration[short]
    result = trips[["passenger_count", "trip_distance", "fare_amount"]].astype("float32")
    result["trip_duration"] = duration.astype("float32")
    result["hour"] = trips.tpep_pickup_datetime.dt.hour.astype("float32")
    result["day_of_week"] = trips.tpep_pickup_datetime.dt.weekday.astype("float32")
    result[LABEL] = (trips.tip_amount > 0.2 * trips.fare_amount).astype("float32")
    return result


def load_dataset(path):
    import ray

    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray.data.read_parquet(path, columns=COLUMNS).map_batches(
        features_of, batch_format="pandas", batch_size=65_536
    )
