#pragma once

#include "manta/serve/request.h"

/// How the body of a request becomes rows. Each column gets one type: int64 if all its values are
/// whole numbers, float64 if one has a fraction or an exponent, bool or string; `null` is a missing
/// value in any of them, and a column of nulls only is float64. A whole number that its column
/// cannot hold exactly (beyond 64 bits, or beyond 2^53 among fractions) is an error, and so are
/// values of different types in one column, a column that comes twice, and values that are arrays
/// or objects. The answer to an error has status 400, and says at which byte of the body the error
/// is.
namespace manta::serve {

/// `{"a": [1, 2], "b": [0.5, null]}`: an array for each column, all of the same length.
Batch json_columns(const Request& request);
/// `[{"a": 1, "b": 0.5}, {"a": 2, "b": null}]`: an object for each row, all with the same keys.
Batch json_records(const Request& request);
/// `{"columns": ["a", "b"], "data": [[1, 0.5], [2, null]]}`: names, then an array for each row. As
/// pandas writes it with `orient="split"`; its "index" is ignored.
Batch json_split(const Request& request);
/// Any of these three, by their shape, or one row as an object of plain values. The default.
Batch json_any(const Request& request);
/// A stream of Arrow's IPC format with any number of batches of rows. Checked in full.
Batch arrow_ipc(const Request& request);

}  // namespace manta::serve
