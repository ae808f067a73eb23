#include <cstring>

#include "manta/serve/replica_frames_internal.h"

namespace manta::serve {
namespace {

void put_number(std::string& out, auto number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// Small bytes inline, large ones as a descriptor.
void put_bytes(std::string& out, std::vector<OutgoingFd>& fds, std::string_view bytes) {
  put_number(out, static_cast<uint64_t>(bytes.size()));
  bool large = bytes.size() > kLargeBuffer && fds.size() < kMaxFrameFds;
  put_number(out, static_cast<uint8_t>(large));
  if (!large) {
    out += bytes;
    return;
  }
  SharedMemoryWriter writer;
  writer.write(bytes.data(), bytes.size());
  auto memory = std::move(writer).finish();
  fds.push_back({memory->fd(), memory});
}

class Reader {
 public:
  explicit Reader(Frame& frame) : frame_(frame), rest_(frame.body) {}

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::string_view bytes(std::vector<std::shared_ptr<SharedMemory>>& memory) {
    auto size = number<uint64_t>();
    if (number<uint8_t>() == 0) return take(size);
    if (next_fd_ >= frame_.fds.size())
      throw Error(ErrorKind::kCorrupt, "a message lacks a descriptor");
    memory.push_back(SharedMemory::adopt(std::move(frame_.fds[next_fd_++]), size));
    return {reinterpret_cast<const char*>(memory.back()->data()), size};
  }
  bool done() const { return rest_.empty(); }

 private:
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) throw Error(ErrorKind::kCorrupt, "a message ends early");
    std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

  Frame& frame_;
  std::string_view rest_;
  size_t next_fd_ = 0;
};

struct AdapterThunk {
  static void invoke(Invocation& call) {
    (void)&registered;
    if (!call.target) throw Error(ErrorKind::kInvalidArgument, "no http_adapter was given");
    *call.instance = std::make_shared<HttpAdapter>(reinterpret_cast<HttpAdapter>(call.target));
  }
  static inline const bool registered = register_thunk(&invoke);
};

}  // namespace

void put_work(OutBuffer& out, const std::vector<WorkItem>& items) {
  std::string& body = out.begin(static_cast<uint16_t>(ReplicaFrame::kWork));
  std::vector<OutgoingFd> fds;
  for (const auto& item : items) {
    put_number(body, item.id);
    put_number(body, item.microseconds_left);
    put_bytes(body, fds, item.head);
    put_bytes(body, fds, item.body);
  }
  out.end(std::move(fds));
}

std::vector<WorkItem> read_work(Frame& frame, std::vector<std::shared_ptr<SharedMemory>>* memory) {
  std::vector<WorkItem> items;
  for (Reader reader(frame); !reader.done();) {
    auto& item = items.emplace_back();
    item.id = reader.number<uint64_t>();
    item.microseconds_left = reader.number<int64_t>();
    item.head = reader.bytes(*memory);
    item.body = reader.bytes(*memory);
  }
  return items;
}

void put_answers(OutBuffer& out, const std::vector<WorkAnswer>& answers) {
  std::string& body = out.begin(static_cast<uint16_t>(ReplicaFrame::kAnswers));
  std::vector<OutgoingFd> fds;
  for (const auto& answer : answers) {
    put_number(body, answer.id);
    put_number(body, answer.status);
    put_bytes(body, fds, answer.body);
  }
  out.end(std::move(fds));
}

std::vector<WorkAnswer> read_answers(Frame& frame) {
  if (frame.type != static_cast<uint16_t>(ReplicaFrame::kAnswers)) {
    throw Error(ErrorKind::kCorrupt, "a replica sent something else than answers");
  }
  std::vector<WorkAnswer> answers;
  std::vector<std::shared_ptr<SharedMemory>> memory;
  for (Reader reader(frame); !reader.done();) {
    auto& answer = answers.emplace_back();
    answer.id = reader.number<uint64_t>();
    answer.status = reader.number<int32_t>();
    answer.body = std::string(reader.bytes(memory));
    memory.clear();
  }
  return answers;
}

Function locate_adapter(HttpAdapter adapter) {
  if (!adapter) throw Error(ErrorKind::kInvalidArgument, "DeployOptions::http_adapter is null");
  return {locate_code(reinterpret_cast<const void*>(&AdapterThunk::invoke)),
          locate_code(reinterpret_cast<const void*>(adapter))};
}

HttpAdapter resolve_adapter(const Function& function) {
  auto [thunk, target] = resolve_function(function);
  std::shared_ptr<void> instance;
  Invocation call;
  call.target = target;
  call.instance = &instance;
  if (thunk != &AdapterThunk::invoke) {
    throw Error(ErrorKind::kInvalidArgument,
                str(describe_function(function), " is no http_adapter"));
  }
  thunk(call);
  return *static_cast<HttpAdapter*>(instance.get());
}

}  // namespace manta::serve
