#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "manta/base/deadline.h"
#include "manta/base/json.h"

namespace arrow {
class RecordBatch;
}

namespace manta::serve {

using Batch = std::shared_ptr<arrow::RecordBatch>;

/// One HTTP request, as an adapter sees it in a replica. It refers to bytes that live until the
/// adapter returns.
struct Request {
  std::string_view method;  ///< "POST".
  std::string_view path;    ///< "/XGBoostService", as it was sent: not percent-decoded.
  std::string_view query;   ///< What follows '?', as it was sent; empty if nothing does.
  std::string_view body;
  internal::Deadline deadline;  ///< Nobody waits for the answer after that.
  std::string_view fields;      ///< The header's lines, each with its line end.

  /// The value of a header field, whose name may be written in any case; the first if there are
  /// several, empty if there is none. Searches the header.
  std::string_view header(std::string_view name) const;
  /// The percent-decoded value of a parameter of the query, `?threshold=0.5`; empty if there is
  /// none.
  std::string param(std::string_view name) const;
  /// The body as a value, for adapters that take small documents of any shape. Throws
  /// Error(kInvalidArgument) if it is not JSON. The adapters of adapters.h read tables faster.
  Json json() const;
};

/// Turns a request into the rows that the predictor gets. Runs in the replica. If it throws, the
/// answer is the error: status 400 for an Error(kInvalidArgument), 500 for anything else.
using HttpAdapter = Batch (*)(const Request&);

}  // namespace manta::serve
