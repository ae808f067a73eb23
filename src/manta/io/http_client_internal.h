#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {

/// "http://127.0.0.1:8000/path?query" in its parts.
struct HttpAddress {
  std::string host;   ///< Without brackets.
  std::string port;   ///< "80" if there is none.
  std::string field;  ///< The value of the field Host: host and port as they were written.
  std::string path;   ///< From the first slash on, with the query; "/" if there is none.
};
/// Throws Error(kInvalidArgument) if the text is not such an address, or is https: this client does
/// not encrypt.
HttpAddress http_address(const std::string& url);

/// The text as a part of a path or query: bytes that may not stand there become %XX.
std::string percent_encoded(std::string_view text);

struct HttpLimits {
  /// The time to connect, and again the time from a request to the end of its answer; one more
  /// second for each MiB that is sent.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  size_t answer_bytes = size_t{1} << 30;  ///< Limit for an answer's body.
};

/// A minimal HTTP/1.1 client over one connection. Only one thread at a time may use it.
class HttpClient {
 public:
  /// Connects. Throws Error(kInvalidArgument) as http_address, Error(kIo) if nothing listens,
  /// Error(kTimeout).
  explicit HttpClient(const std::string& url, HttpLimits limits = {});

  struct Answer {
    int status = 0;
    std::string header;  ///< All of it, as it came.
    std::string body;

    /// The value of the first field of that name, in upper or lower case; empty if there is none.
    std::string_view field(std::string_view name) const;
  };

  struct Request {
    std::string method = "GET";
    std::string path = {};       ///< Default: that of the constructor's url.
    std::string fields = {};     ///< Each with its line end: "Content-Type: text/csv\r\n".
    std::string_view body = {};  ///< Or a file:
    int file = -1;               ///< Sent from its offset on,
    uint64_t file_size = 0;      ///< this many bytes.
  };
  /// Throws Error(kIo) if the connection ends before the answer does or the file before its size,
  /// Error(kTimeout), Error(kCorrupt) if the answer is no HTTP or exceeds the limits. After an
  /// error the connection cannot be used any more.
  Answer request(const Request& request);
  Answer post(const std::string& body, const std::string& fields = {});
  Answer get(const std::string& path);

  /// Sends these bytes and nothing else.
  void send(std::string_view bytes);
  /// The next answer. `has_body`: false after a HEAD.
  Answer receive(bool has_body = true);
  /// Waits until the other side closes, and returns whether it did.
  bool is_closed();
  void close() { socket_.reset(); }

 private:
  void send(std::string_view bytes, Deadline deadline);
  void send_file(int file, uint64_t size, Deadline deadline);
  Answer receive(bool has_body, Deadline deadline);
  std::string receive_chunks(Deadline deadline);
  std::string take(size_t size, Deadline deadline);
  std::string take_line(Deadline deadline);
  bool fill(Deadline deadline);
  void wait(short events, Deadline deadline, const char* doing);

  HttpLimits limits_;
  HttpAddress address_;
  UniqueFd socket_;
  std::string buffer_;
};

}  // namespace manta
