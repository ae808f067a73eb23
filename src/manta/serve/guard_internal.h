#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace manta::serve {

/// A request's header, cut into parts that refer to the bytes that it was read from.
struct RequestHead {
  std::string_view method, path, query;
  std::string_view fields;  ///< All lines after the first, each with its line end.
  std::string_view authorization;
  std::optional<uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;  ///< Only for HTTP/1.1: connections of HTTP/1.0 end after an answer.
  bool expects_continue = false;
};

/// Why a request is refused.
struct Refusal {
  int status = 400;
  std::string why;
};

/// Reads a header, from the request line to the empty line, both included. A proxy between the
/// client and the front must not see another request in these bytes than the front does. So
/// read_head refuses everything that two readers may read in two ways, which Beast's parser does
/// not refuse: folded lines, blanks before a colon, more than one Host, Content-Length or
/// Transfer-Encoding, any Transfer-Encoding but "chunked", "chunked" together with a Content-Length
/// or in HTTP/1.0, a bare CR or LF, control characters. guard_test.cc has the table of cases.
std::optional<Refusal> read_head(std::string_view bytes, RequestHead* head);

}  // namespace manta::serve
