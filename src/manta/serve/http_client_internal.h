#pragma once

#include <string>

#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"

namespace manta::serve {

/// For tests, benchmarks and examples: an HTTP client as plain as can be, over one connection.
class HttpClient {
 public:
  /// Connects to "http://127.0.0.1:8000/..." Throws Error(kIo).
  explicit HttpClient(const std::string& url);

  struct Answer {
    int status = 0;
    std::string header;  ///< All of it, as it came.
    std::string body;
  };
  /// Throws Error(kIo) if the connection ends before the answer does, Error(kTimeout) after 30 s.
  Answer post(const std::string& body, const std::string& extra_fields = {});
  Answer get(const std::string& path);

  /// Sends these bytes and nothing else.
  void send(std::string_view bytes);
  /// The next answer. `has_body`: false after a HEAD.
  Answer receive(bool has_body = true);
  /// Whether the other side has closed; waits for it.
  bool is_closed();
  void close() { socket_.reset(); }

 private:
  bool fill();

  UniqueFd socket_;
  std::string host_, path_;
  std::string buffer_;
};

}  // namespace manta::serve
