#include <poll.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "manta/base/random_token_internal.h"
#include "manta/io/host_links_internal.h"
#include "manta/io/poll_internal.h"
#include "manta/io/tls_listener_internal.h"

namespace manta {
namespace {

constexpr uint32_t kLinkMagic = 0x314b4c4d;  // "MLK1"
constexpr size_t kMostFailureText = 1024;
constexpr std::chrono::milliseconds kLongestTurn{100};

// The first frame of a member that connects, and the answer: the next bytes of the connection are
// those of collectives, which the listener must not have read.
constexpr uint16_t kLinkHello = 1;
struct LinkHello {
  uint32_t magic = kLinkMagic;
  int32_t from = 0;
};
constexpr char kWelcome = 'w';

// Returns once the partner has taken this member.
void introduce(Transport& transport, int member, Deadline deadline) {
  LinkHello hello;
  hello.from = member;
  OutBuffer out(false);
  out.push(kLinkHello, {reinterpret_cast<const char*>(&hello), sizeof(hello)});
  char answer = 0;
  std::deque<UniqueFd> none;
  while (true) {
    IoStatus sent = out.flush(transport);
    auto got = transport.read({&answer, 1}, none, Blocking::kNo);
    if (got.bytes == 1) break;
    if (got.status == IoStatus::kClosed)
      throw Error(ErrorKind::kIo, "it does not take this member, and has hung up");
    auto events = static_cast<short>(POLLIN | (sent == IoStatus::kWouldBlock ? POLLOUT : 0));
    if (!poll_until(transport.fd(), events, deadline))
      throw Error(ErrorKind::kTimeout, "it does not answer");
  }
  if (answer != kWelcome) throw Error(ErrorKind::kCorrupt, "it is no member of a group");
}

}  // namespace

struct HostLinks::Header {
  uint32_t magic = kLinkMagic;
  int32_t from = 0;
  uint64_t bytes = 0;   // how many bytes follow
  int32_t failed = -1;  // an ErrorKind: the bytes that follow are its message
  uint32_t reserved = 0;
  CollectiveCall call = {};
};

struct HostLinks::Link {
  std::unique_ptr<Transport> transport;
  bool amid_message = false;  // of a message that this side sends
};

// Takes the partners that connect to this member. See Listener for what strangers may do meanwhile.
class HostLinks::Arrivals {
 public:
  using Transports = std::map<int, std::unique_ptr<Transport>>;

  Arrivals(const TlsKey& key, const std::string& address, std::set<int> expected)
      : missing_(std::move(expected)),
        listener_(loop_, key, listen_tcp(address, 0),
                  [this](const std::shared_ptr<AsyncChannel>& channel, Frame& frame) {
                    on_first(*channel, frame);
                  }) {}

  std::string address() const { return listener_.address().text(); }
  const std::set<int>& missing() const { return missing_; }

  // The partners that have come before the deadline.
  Transports take(Deadline deadline) {
    while (!missing_.empty() && !deadline.passed()) {
      loop_.context.run_one_until(std::min(deadline.at(), Clock::now() + kLongestTurn));
    }
    return std::move(came_);
  }

 private:
  void on_first(AsyncChannel& channel, const Frame& frame) {
    LinkHello hello;
    bool is_hello = frame.type == kLinkHello && frame.body.size() == sizeof(hello);
    if (is_hello) std::memcpy(&hello, frame.body.data(), sizeof(hello));
    if (!is_hello || hello.magic != kLinkMagic || !missing_.contains(hello.from)) {
      throw Error(ErrorKind::kCorrupt, "it is no member that is waited for");
    }
    auto transport = channel.take_transport();
    transport->write({&kWelcome, 1}, {});  // what the socket does not take now leaves later
    came_[hello.from] = std::move(transport);
    missing_.erase(hello.from);
  }

  std::set<int> missing_;
  Transports came_;
  EventLoop loop_;
  TlsListener listener_;
};

HostLinks::HostLinks(int member, int size, const std::string& address, const LinkMeeting& meeting,
                     HostLinksOptions options)
    : member_(member), size_(size), options_(std::move(options)) {
  MANTA_CHECK(size > 0 && member >= 0 && member < size, "no such member");
  for (int i = static_cast<int>(options_.names.size()); i < size; ++i) {
    options_.names.push_back(str("member ", i));
  }
  doubling_ = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  if (!options_.connect_timeout) options_.connect_timeout = options_.timeout;
  connect_all(address, meeting, Deadline::after(*options_.connect_timeout));
}

HostLinks::~HostLinks() = default;

// The members it exchanges data with. Members beyond the power of two give their part to a member
// below it, and get the result from that member.
std::vector<int> HostLinks::partners() const {
  if (member_ >= doubling_) return {member_ - doubling_};
  std::vector<int> all;
  if (member_ + doubling_ < size_) all.push_back(member_ + doubling_);
  for (int distance = 1; distance < doubling_; distance *= 2) all.push_back(member_ ^ distance);
  return all;
}

void HostLinks::connect_all(const std::string& address, const LinkMeeting& meeting,
                            Deadline deadline) {
  if (size_ == 1) return;
  if (member_ == 0) meeting.set("key", random_token());
  TlsKey key(meeting.get("key"));
  std::set<int> above;
  for (int partner : partners()) {
    if (partner > member_) above.insert(partner);
  }
  Arrivals arrivals(key, address, std::move(above));
  meeting.set(str("at/", member_), arrivals.address());
  // A member connects to partners with lower numbers, and partners with higher numbers connect to
  // it; so there is no circle of waits.
  for (int partner : partners()) {
    if (partner > member_) continue;
    TcpAddress at = parse_address(meeting.get(str("at/", partner)));
    try {
      add_link(partner, connect_tls(key, at.host, at.port, deadline));
      introduce(*links_.at(partner)->transport, member_, deadline);
    } catch (const Error& error) {
      throw Error(error.kind(), str(name(member_), " cannot reach ", name(partner), " at ",
                                    at.text(), ": ", error.what()));
    }
  }
  for (auto& [partner, transport] : arrivals.take(deadline)) {
    add_link(partner, std::move(transport));
  }
  if (arrivals.missing().empty()) return;
  std::string missing;
  for (int partner : arrivals.missing()) missing += str(missing.empty() ? "" : ", ", name(partner));
  throw Error(ErrorKind::kTimeout, str(missing, " did not connect to ", name(member_), " at ",
                                       address, " within ", in_seconds(*options_.connect_timeout)));
}

void HostLinks::add_link(int partner, std::unique_ptr<Transport> transport) {
  links_[partner] = std::make_unique<Link>();
  links_[partner]->transport = std::move(transport);
}

std::string HostLinks::what_failed(const CollectiveCall& call, int partner) const {
  return str(name_of(call.kind), " on ", name(member_), " of a group of ", size_,
             " hosts: ", name(partner));
}

void HostLinks::check(const Header& header, int partner, const CollectiveCall& call) {
  if (header.magic != kLinkMagic || header.from != partner || header.failed >= 0) {
    fail_and_throw(ErrorKind::kCorrupt,
                   str(what_failed(call, partner), " sent what is no message of a collective"));
  }
  const CollectiveCall& other = header.call;
  if (other.kind == call.kind && other.bytes == call.bytes && other.type == call.type &&
      other.reduce == call.reduce && other.root == call.root && other.sequence == call.sequence) {
    if (other.step == call.step || other.step < 0 || call.step < 0) return;
    fail_and_throw(
        ErrorKind::kInvalidArgument,
        str("the ranks are at different steps: those on the host of ", name(partner), " at step ",
            other.step, ", those on the host of ", name(member_), " at step ", call.step,
            " of their epoch; between two exchanges every rank must take the same ",
            "number of batches"));
  }
  fail_and_throw(
      ErrorKind::kInvalidArgument,
      str("hosts made different calls at operation ", call.sequence,
          " between them: ", name(partner), " called ", describe(other), " while ", name(member_),
          " called ", describe(call), "; all ranks must make the same calls in the same order"));
}

void HostLinks::exchange(int partner, const Header* header, std::span<const std::byte> data,
                         const CollectiveCall& call, const Take* take, Deadline deadline) {
  Link& link = *links_.at(partner);
  // One buffer, so that little data leaves in one record and one packet.
  std::string out;
  if (header) {
    Header sent = *header;
    sent.bytes = data.size();
    out.append(reinterpret_cast<const char*>(&sent), sizeof(sent));
    out.append(reinterpret_cast<const char*>(data.data()), data.size());
    link.amid_message = true;
  }
  std::string_view rest = out;
  bool closed = false;
  Header got;
  size_t have = 0;  // bytes of the header, then of what follows
  size_t wanted = take ? sizeof(Header) : 0;
  std::deque<UniqueFd> none;

  // One attempt each way; false if neither has moved anything.
  auto step = [&] {
    bool moved_any = false;
    if (!rest.empty() || link.transport->has_unsent()) {
      auto moved = link.transport->write(rest, {});
      rest.remove_prefix(moved.bytes);
      moved_any = moved.bytes > 0 || moved.status != IoStatus::kWouldBlock;
      if (moved.status == IoStatus::kClosed) {  // its last message may say why
        rest = {};
        closed = !take;
      }
    }
    if (have < wanted) {
      char* into = have < sizeof(Header)
                       ? reinterpret_cast<char*>(&got) + have
                       : reinterpret_cast<char*>(received_.data()) + (have - sizeof(Header));
      size_t room = (have < sizeof(Header) ? sizeof(Header) : wanted) - have;
      auto moved = link.transport->read({into, room}, none, Blocking::kNo);
      have += moved.bytes;
      moved_any = moved_any || moved.bytes > 0;
      closed = closed || (moved.status == IoStatus::kClosed && have < wanted);
      if (have == sizeof(Header) && wanted == sizeof(Header)) {
        size_t most = got.failed >= 0 ? kMostFailureText : call.bytes;
        if (got.magic != kLinkMagic || got.bytes > most) {
          got.failed = -1;
          check(got, partner, call);  // says what is wrong with it
          fail_and_throw(ErrorKind::kCorrupt,
                         str(what_failed(call, partner), " sent ", got.bytes, " bytes"));
        }
        wanted += got.bytes;
        received_.resize(std::max(received_.size(), got.bytes));
      }
    }
    return moved_any;
  };

  auto begin = Clock::now();
  try {
    while (!closed && (!rest.empty() || link.transport->has_unsent() || have < wanted)) {
      if (step() || eager_.look(step)) continue;
      auto events =
          static_cast<short>((have < wanted ? POLLIN : 0) |
                             (!rest.empty() || link.transport->has_unsent() ? POLLOUT : 0));
      // A member that only sends does not care what there is to read.
      if (have < wanted && link.transport->has_more()) continue;
      if (poll_until(link.transport->fd(), events, deadline)) continue;
      fail_and_throw(
          ErrorKind::kTimeout,
          str(what_failed(call, partner), " did not arrive within ", in_seconds(options_.timeout),
              " (the run's collective_timeout); it is stopped, slow, or did not make ",
              "the same call"));
    }
  } catch (const Error& error) {
    if (failure_) throw;
    fail_and_throw(error.kind() == ErrorKind::kIo ? ErrorKind::kWorkerLost : error.kind(),
                   str(what_failed(call, partner), " is lost: ", error.what()));
  }
  if (take) eager_.add(Clock::now() - begin);
  if (closed) {
    fail_and_throw(ErrorKind::kWorkerLost,
                   str(what_failed(call, partner), " has ended: its connection is closed"));
  }
  if (header) link.amid_message = false;
  if (!take) return;
  if (got.failed >= 0) {
    std::string cause(reinterpret_cast<const char*>(received_.data()), got.bytes);
    auto kind = got.failed <= static_cast<int>(ErrorKind::kCancelled)
                    ? static_cast<ErrorKind>(got.failed)
                    : ErrorKind::kIo;
    failure_.emplace(kind, str(what_failed(call, partner), " failed: ", cause));
    fail(kind, cause);
    throw *failure_;
  }
  check(got, partner, call);
  (*take)(partner, std::span(received_.data(), got.bytes));
}

void HostLinks::run(CollectiveCall call,
                    const std::function<std::span<const std::byte>(int to)>& give,
                    const Take& take) {
  if (failure_) throw *failure_;
  call.sequence = sequence_++;
  if (options_.steps) call.step = static_cast<int32_t>(options_.steps->step());
  Deadline deadline = Deadline::after(options_.timeout);
  Header header;
  header.from = member_;
  header.call = call;
  int folded = member_ + doubling_;
  if (member_ >= doubling_) {
    int partner = member_ - doubling_;
    exchange(partner, &header, give(partner), call, nullptr, deadline);
    exchange(partner, nullptr, {}, call, &take, deadline);
    return;
  }
  if (folded < size_) exchange(folded, nullptr, {}, call, &take, deadline);
  for (int distance = 1; distance < doubling_; distance *= 2) {
    int partner = member_ ^ distance;
    exchange(partner, &header, give(partner), call, &take, deadline);
  }
  if (folded < size_) exchange(folded, &header, give(folded), call, nullptr, deadline);
}

void HostLinks::meet(CollectiveCall call) {
  run(
      call, [](int) { return std::span<const std::byte>(); },
      [&](int from, std::span<std::byte> data) {
        if (!data.empty()) {
          fail_and_throw(ErrorKind::kCorrupt, str(what_failed(call, from), " sent data"));
        }
      });
}

void HostLinks::allreduce(void* data, const Elements& elements, ReduceKind kind) {
  auto function = find_reduce(elements.type, kind);
  if (!function) {
    throw Error(ErrorKind::kInvalidArgument,
                str("the ", reduce_name(kind), " over ranks is not defined for elements of ",
                    element_name(elements.type)));
  }
  CollectiveCall call{.bytes = elements.bytes(),
                      .kind = CollectiveKind::kAllreduce,
                      .type = elements.type,
                      .reduce = kind};
  std::span<const std::byte> mine(static_cast<const std::byte*>(data), elements.bytes());
  run(
      call, [&](int) { return mine; },
      [&](int from, std::span<std::byte> theirs) {
        if (theirs.size() != elements.bytes()) {
          fail_and_throw(ErrorKind::kCorrupt,
                         str(what_failed(call, from), " sent ", theirs.size(), " bytes"));
        }
        if (elements.count == 0) return;
        // A member that was folded in gets the whole result.
        if (member_ >= doubling_) {
          std::memcpy(data, theirs.data(), theirs.size());
          return;
        }
        // In the same order on both sides, so that both have the same bits.
        const void* sources[] = {data, theirs.data()};
        if (from < member_) std::swap(sources[0], sources[1]);
        function(data, sources, 2, elements.count);
      });
}

void HostLinks::broadcast(void* data, const Elements& elements, int root) {
  CollectiveCall call{.bytes = elements.bytes(),
                      .root = static_cast<int16_t>(root),
                      .kind = CollectiveKind::kBroadcast,
                      .type = elements.type};
  bool has_it = member_ == root;
  std::span<const std::byte> bytes(static_cast<const std::byte*>(data), elements.bytes());
  run(
      call, [&](int to) { return has_it && to != root ? bytes : std::span<const std::byte>(); },
      [&](int from, std::span<std::byte> theirs) {
        if (theirs.empty()) return;
        if (theirs.size() != elements.bytes()) {
          fail_and_throw(ErrorKind::kCorrupt,
                         str(what_failed(call, from), " sent ", theirs.size(), " bytes"));
        }
        std::memcpy(data, theirs.data(), theirs.size());
        has_it = true;
      });
}

// Tells the others, as far as their sockets take it at once, and closes the connections.
void HostLinks::fail(ErrorKind kind, const std::string& message) {
  if (!failure_) failure_.emplace(kind, message);
  std::string text = message.substr(0, kMostFailureText);
  Header header;
  header.from = member_;
  header.failed = static_cast<int32_t>(kind);
  header.bytes = text.size();
  std::string out(reinterpret_cast<const char*>(&header), sizeof(header));
  out += text;
  for (auto& [partner, link] : links_) {
    if (link->amid_message) continue;
    try {
      link->transport->write(out, {});
    } catch (const Error&) {
    }
  }
  links_.clear();
}

void HostLinks::fail_and_throw(ErrorKind kind, const std::string& message) {
  fail(kind, message);
  throw *failure_;
}

}  // namespace manta
