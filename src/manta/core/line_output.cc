#include <cstdio>
#include <ext/stdio_filebuf.h>
#include <ext/stdio_sync_filebuf.h>
#include <iostream>
#include <utility>
#include <vector>

#include "manta/core/zygote_internal.h"

namespace manta {
namespace {

template <class Char>
using Streams = std::vector<std::pair<std::basic_ostream<Char>*, FILE*>>;

// Lets the streams write through C's streams, unless the program has given them another buffer.
template <class Char>
class WriteThrough {
 public:
  // Checks the buffers while they live: sync_with_stdio destroys the usual ones.
  explicit WriteThrough(Streams<Char> streams) : streams_(std::move(streams)) {
    for (auto& [stream, file] : streams_) {
      auto* buffer = stream->rdbuf();
      bool usual = dynamic_cast<__gnu_cxx::stdio_sync_filebuf<Char>*>(buffer) ||
                   dynamic_cast<__gnu_cxx::stdio_filebuf<Char>*>(buffer);
      // Leaked: streams are used to the very end.
      buffers_.push_back(usual ? new __gnu_cxx::stdio_sync_filebuf<Char>(file) : buffer);
    }
  }
  void apply() {
    for (size_t i = 0; i < streams_.size(); ++i) streams_[i].first->rdbuf(buffers_[i]);
  }

 private:
  Streams<Char> streams_;
  std::vector<std::basic_streambuf<Char>*> buffers_;
};

}  // namespace

void line_buffer_output() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  WriteThrough<char> narrow({{&std::cout, stdout}, {&std::cerr, stderr}, {&std::clog, stderr}});
  WriteThrough<wchar_t> wide({{&std::wcout, stdout}, {&std::wcerr, stderr}, {&std::wclog, stderr}});
  // The call has an effect only once in a process. Without it here, a task that makes this call
  // itself, as programs do to be faster, would keep its lines in a buffer.
  std::ios_base::sync_with_stdio(false);
  narrow.apply();
  wide.apply();
}

}  // namespace manta
