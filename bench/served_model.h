#pragma once

#include <string>

/// Tunes XGBoost, behind a StandardScaler, on a table like the examples' breast_cancer.csv, and
/// writes what serving the best model needs to a folder:
///   checkpoint    for serve_model
///   model.ubj     for other servers, and
///   scale.json    {"columns": [...], "mean": [...], "std": [...]}: what the scaler does to a row,
///                 with 0 and 1 where it does nothing
///   request.json  the table's first row, {"column": [value], ...}
///   answer.json   the probability that the model predicts for it
void make_served_model(const std::string& table, const std::string& folder);

/// Serves it with one replica: prints {"url": ...}, then waits until stdin ends.
void serve_model(const std::string& folder);
