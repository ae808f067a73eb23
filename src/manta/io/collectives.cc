#include <algorithm>
#include <cstring>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/io/collectives_internal.h"

namespace manta {
namespace {

/// Up to this size every rank reduces everything, in one step. Above it, each rank reduces its
/// share, and a second step spreads the results.
constexpr size_t kWholeBytes = 64 * 1024;

size_t divide_up(size_t a, size_t b) { return (a + b - 1) / b; }

const std::byte* offset_by(const void* data, size_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}
std::byte* offset_by(void* data, size_t offset) { return static_cast<std::byte*>(data) + offset; }

void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

ReduceFunction checked_reduce(ElementType type, ReduceKind kind) {
  auto function = find_reduce(type, kind);
  if (!function) {
    throw Error(ErrorKind::kInvalidArgument,
                str("the ", reduce_name(kind), " over ranks is not defined for elements of ",
                    element_name(type)));
  }
  return function;
}

/// [begin, end) of the elements, cut into pieces of at most `limit`.
struct Pieces {
  size_t count;
  size_t limit;

  size_t number() const { return divide_up(count, limit); }
  size_t begin(size_t piece) const { return std::min(count, piece * limit); }
  size_t size(size_t piece) const { return begin(piece + 1) - begin(piece); }
};

Pieces slot_pieces(const Elements& elements, size_t parts = 1) {
  return {elements.count, kCollectiveSlotBytes / parts / elements.width};
}

}  // namespace

Collectives::Collectives(UniqueFd region, int rank, int size, const GroupOptions& options)
    : member_(std::move(region), rank, size, options.timeout), options_(options) {}

uint64_t Collectives::calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

/// One call: at least one step, so that every call is compared with those of the others. Before
/// step i is published, fill(i, step) puts this rank's data into its slot; it may still read the
/// slots of the step before. After all have published, read(i, step) takes what the others wrote.
template <class Fill, class Read>
void Collectives::run(CollectiveCall call, size_t steps, Timeout timeout, Fill fill, Read read) {
  std::lock_guard lock(mutex_);
  run_locked(call, steps, timeout, fill, read);
}

template <class Fill, class Read>
void Collectives::run_locked(CollectiveCall call, size_t steps, Timeout timeout, Fill& fill,
                             Read& read) {
  WaitWatch::Scope scope(options_.watch, name_of(call.kind));
  member_.throw_if_failed();
  call.sequence = static_cast<uint32_t>(calls_++);
  const WaitWatch* watch = options_.steps ? options_.steps : options_.watch;
  if (watch) call.step = static_cast<int32_t>(watch->step());
  auto deadline = Deadline::after(timeout.value_or(options_.timeout));
  for (size_t i = 0; i < std::max<size_t>(steps, 1); ++i) {
    uint32_t step = member_.step();
    if (i < steps) fill(i, step);
    member_.publish(i == 0 ? &call : nullptr);
    member_.wait(call, deadline);
    if (i == 0) member_.check_calls(step);
    if (i < steps) read(i, step);
  }
}

void Collectives::barrier(Timeout timeout) {
  run(
      {.kind = CollectiveKind::kBarrier}, 0, timeout, [](size_t, uint32_t) {},
      [](size_t, uint32_t) {});
}

void Collectives::broadcast(void* data, const Elements& elements, int root, Timeout timeout) {
  auto pieces = slot_pieces(elements);
  auto move = [&](size_t i, uint32_t step, bool is_source) {
    auto* slot = member_.slot(root, step);
    auto* piece = offset_by(data, pieces.begin(i) * elements.width);
    size_t bytes = pieces.size(i) * elements.width;
    is_source ? copy_bytes(slot, piece, bytes) : copy_bytes(piece, slot, bytes);
  };
  run(
      {.bytes = elements.bytes(),
       .root = static_cast<int16_t>(root),
       .kind = CollectiveKind::kBroadcast,
       .type = elements.type},
      pieces.number(), timeout,
      [&](size_t i, uint32_t step) {
        if (rank() == root) move(i, step, true);
      },
      [&](size_t i, uint32_t step) {
        if (rank() != root) move(i, step, false);
      });
}

void Collectives::allreduce(void* data, const Elements& elements, ReduceKind kind,
                            Timeout timeout) {
  auto function = checked_reduce(elements.type, kind);
  CollectiveCall call{.bytes = elements.bytes(),
                      .kind = CollectiveKind::kAllreduce,
                      .type = elements.type,
                      .reduce = kind};
  if (elements.bytes() <= kWholeBytes || size() == 1) {
    allreduce_whole(data, call, elements, function, timeout);
  } else {
    allreduce_parts(data, call, elements, function, timeout);
  }
}

void Collectives::allreduce_whole(void* data, const CollectiveCall& call, const Elements& elements,
                                  ReduceFunction function, Timeout timeout) {
  std::vector<const void*> sources(static_cast<size_t>(size()));
  run(
      call, size() == 1 || elements.count == 0 ? 0 : 1, timeout,
      [&](size_t, uint32_t step) {
        copy_bytes(member_.slot(rank(), step), data, elements.bytes());
      },
      [&](size_t, uint32_t step) {
        for (int r = 0; r < size(); ++r) {
          sources[static_cast<size_t>(r)] = r == rank() ? data : member_.slot(r, step);
        }
        function(data, sources.data(), size(), elements.count);
      });
}

/// Piece by piece. A slot holds this rank's input of piece i and its share of the result of piece
/// i-1, so that one step per piece does both.
void Collectives::allreduce_parts(void* data, const CollectiveCall& call, const Elements& elements,
                                  ReduceFunction function, Timeout timeout) {
  auto ranks = static_cast<size_t>(size());
  auto self = static_cast<size_t>(rank());
  size_t width = elements.width;
  // Shares begin at multiples of 64 bytes of the slot, so that no cache line has two writers'
  // results, and a slot holds one share per rank and one more for results.
  size_t most = kCollectiveSlotBytes / (ranks + 1) / 64 * 64 / width;
  size_t rounds = divide_up(elements.count, most * ranks);
  size_t share = divide_up(divide_up(elements.count, rounds * ranks) * width, 64) * 64 / width;
  share = std::min(share, most);
  Pieces pieces{elements.count, share * ranks};

  // Share r of a piece: where it begins in the data, and how many elements it has.
  auto begin = [&](size_t piece, size_t r) {
    return std::min(pieces.begin(piece) + r * share, pieces.begin(piece + 1));
  };
  auto length = [&](size_t piece, size_t r) { return begin(piece, r + 1) - begin(piece, r); };
  auto result = [&](size_t r, uint32_t step) {
    return member_.slot(static_cast<int>(r), step) + ranks * share * width;
  };

  std::vector<const void*> sources(ranks);
  auto reduce_share = [&](size_t piece, uint32_t step) {
    auto* own = offset_by(data, begin(piece, self) * width);
    for (size_t r = 0; r < ranks; ++r) {
      sources[r] =
          r == self ? own : member_.slot(static_cast<int>(r), step - 1) + self * share * width;
    }
    function(result(self, step), sources.data(), size(), length(piece, self));
    copy_bytes(own, result(self, step), length(piece, self) * width);
  };
  run(
      call, pieces.number() + 1, timeout,
      [&](size_t i, uint32_t step) {
        if (i > 0) reduce_share(i - 1, step);
        if (i == pieces.number()) return;
        for (size_t r = 0; r < ranks; ++r) {
          if (r == self) continue;
          copy_bytes(member_.slot(rank(), step) + r * share * width,
                     offset_by(data, begin(i, r) * width), length(i, r) * width);
        }
      },
      [&](size_t i, uint32_t step) {
        for (size_t r = 0; i > 0 && r < ranks; ++r) {
          if (r == self) continue;
          copy_bytes(offset_by(data, begin(i - 1, r) * width), result(r, step),
                     length(i - 1, r) * width);
        }
      });
}

void Collectives::reduce(void* data, const Elements& elements, ReduceKind kind, int root,
                         Timeout timeout) {
  auto function = checked_reduce(elements.type, kind);
  auto pieces = slot_pieces(elements);
  std::vector<const void*> sources(static_cast<size_t>(size()));
  run(
      {.bytes = elements.bytes(),
       .root = static_cast<int16_t>(root),
       .kind = CollectiveKind::kReduce,
       .type = elements.type,
       .reduce = kind},
      pieces.number(), timeout,
      [&](size_t i, uint32_t step) {
        if (rank() == root) return;
        copy_bytes(member_.slot(rank(), step), offset_by(data, pieces.begin(i) * elements.width),
                   pieces.size(i) * elements.width);
      },
      [&](size_t i, uint32_t step) {
        if (rank() != root) return;
        auto* piece = offset_by(data, pieces.begin(i) * elements.width);
        for (int r = 0; r < size(); ++r) {
          sources[static_cast<size_t>(r)] = r == root ? piece : member_.slot(r, step);
        }
        function(piece, sources.data(), size(), pieces.size(i));
      });
}

void Collectives::allgather(std::span<void* const> outputs, const void* input,
                            const Elements& elements, Timeout timeout) {
  auto pieces = slot_pieces(elements);
  copy_bytes(outputs[static_cast<size_t>(rank())], input, elements.bytes());
  run(
      {.bytes = elements.bytes(), .kind = CollectiveKind::kAllgather, .type = elements.type},
      pieces.number(), timeout,
      [&](size_t i, uint32_t step) {
        copy_bytes(member_.slot(rank(), step), offset_by(input, pieces.begin(i) * elements.width),
                   pieces.size(i) * elements.width);
      },
      [&](size_t i, uint32_t step) {
        for (int r = 0; r < size(); ++r) {
          if (r == rank()) continue;
          copy_bytes(offset_by(outputs[static_cast<size_t>(r)], pieces.begin(i) * elements.width),
                     member_.slot(r, step), pieces.size(i) * elements.width);
        }
      });
}

void Collectives::gather(std::span<void* const> outputs, const void* input,
                         const Elements& elements, int root, Timeout timeout) {
  auto pieces = slot_pieces(elements);
  if (rank() == root) copy_bytes(outputs[static_cast<size_t>(rank())], input, elements.bytes());
  run(
      {.bytes = elements.bytes(),
       .root = static_cast<int16_t>(root),
       .kind = CollectiveKind::kGather,
       .type = elements.type},
      pieces.number(), timeout,
      [&](size_t i, uint32_t step) {
        if (rank() == root) return;
        copy_bytes(member_.slot(rank(), step), offset_by(input, pieces.begin(i) * elements.width),
                   pieces.size(i) * elements.width);
      },
      [&](size_t i, uint32_t step) {
        for (int r = 0; rank() == root && r < size(); ++r) {
          if (r == rank()) continue;
          copy_bytes(offset_by(outputs[static_cast<size_t>(r)], pieces.begin(i) * elements.width),
                     member_.slot(r, step), pieces.size(i) * elements.width);
        }
      });
}

void Collectives::scatter(void* output, std::span<const void* const> inputs,
                          const Elements& elements, int root, Timeout timeout) {
  auto pieces = slot_pieces(elements, static_cast<size_t>(size()));
  size_t stride = pieces.limit * elements.width;
  if (rank() == root) copy_bytes(output, inputs[static_cast<size_t>(root)], elements.bytes());
  run(
      {.bytes = elements.bytes(),
       .root = static_cast<int16_t>(root),
       .kind = CollectiveKind::kScatter,
       .type = elements.type},
      pieces.number(), timeout,
      [&](size_t i, uint32_t step) {
        for (size_t r = 0; rank() == root && r < inputs.size(); ++r) {
          copy_bytes(member_.slot(root, step) + r * stride,
                     offset_by(inputs[r], pieces.begin(i) * elements.width),
                     pieces.size(i) * elements.width);
        }
      },
      [&](size_t i, uint32_t step) {
        if (rank() == root) return;
        copy_bytes(offset_by(output, pieces.begin(i) * elements.width),
                   member_.slot(root, step) + static_cast<size_t>(rank()) * stride,
                   pieces.size(i) * elements.width);
      });
}

void Collectives::reduce_scatter(void* output, std::span<const void* const> inputs,
                                 const Elements& elements, ReduceKind kind, Timeout timeout) {
  auto function = checked_reduce(elements.type, kind);
  auto pieces = slot_pieces(elements, static_cast<size_t>(size()));
  size_t stride = pieces.limit * elements.width;
  auto self = static_cast<size_t>(rank());
  std::vector<const void*> sources(static_cast<size_t>(size()));
  run(
      {.bytes = elements.bytes(),
       .kind = CollectiveKind::kReduceScatter,
       .type = elements.type,
       .reduce = kind},
      pieces.number(), timeout,
      [&](size_t i, uint32_t step) {
        for (size_t r = 0; r < inputs.size(); ++r) {
          copy_bytes(member_.slot(rank(), step) + r * stride,
                     offset_by(inputs[r], pieces.begin(i) * elements.width),
                     pieces.size(i) * elements.width);
        }
      },
      [&](size_t i, uint32_t step) {
        for (size_t r = 0; r < sources.size(); ++r) {
          sources[r] = member_.slot(static_cast<int>(r), step) + self * stride;
        }
        function(offset_by(output, pieces.begin(i) * elements.width), sources.data(), size(),
                 pieces.size(i));
      });
}

void Collectives::alltoall(std::span<const std::span<std::byte>> outputs,
                           std::span<const std::span<const std::byte>> inputs, ElementType type,
                           Timeout timeout) {
  auto ranks = static_cast<size_t>(size());
  auto self = static_cast<size_t>(rank());
  std::lock_guard lock(mutex_);
  CollectiveCall call{.kind = CollectiveKind::kAlltoall, .type = type};

  // Each rank tells every other what it sends and what it expects.
  struct Sizes {
    uint64_t sent;
    uint64_t expected;
  };
  std::vector<std::vector<Sizes>> sizes(ranks, std::vector<Sizes>(ranks));
  for (size_t r = 0; r < ranks; ++r) sizes[self][r] = {inputs[r].size(), outputs[r].size()};
  auto tell = [&](size_t, uint32_t step) {
    copy_bytes(member_.slot(rank(), step), sizes[self].data(), ranks * sizeof(Sizes));
  };
  auto hear = [&](size_t, uint32_t step) {
    for (size_t r = 0; r < ranks; ++r) {
      copy_bytes(sizes[r].data(), member_.slot(static_cast<int>(r), step), ranks * sizeof(Sizes));
    }
  };
  run_locked(call, 1, timeout, tell, hear);
  size_t largest = 0;
  for (size_t from = 0; from < ranks; ++from) {
    for (size_t to = 0; to < ranks; ++to) {
      largest = std::max<size_t>(largest, sizes[from][to].sent);
      if (sizes[from][to].sent == sizes[to][from].expected) continue;
      member_.fail(ErrorKind::kInvalidArgument,
                   str("alltoall: rank ", from, " sends ", sizes[from][to].sent, " bytes to rank ",
                       to, ", which expects ", sizes[to][from].expected));
      member_.throw_if_failed();
    }
  }

  size_t stride = kCollectiveSlotBytes / ranks;
  auto part = [&](const auto& span, size_t i) {
    size_t begin = std::min(i * stride, span.size());
    return span.subspan(begin, std::min(stride, span.size() - begin));
  };
  auto send = [&](size_t i, uint32_t step) {
    for (size_t r = 0; r < ranks; ++r) {
      auto bytes = part(inputs[r], i);
      copy_bytes(member_.slot(rank(), step) + r * stride, bytes.data(), bytes.size());
    }
  };
  auto receive = [&](size_t i, uint32_t step) {
    for (size_t r = 0; r < ranks; ++r) {
      auto bytes = part(outputs[r], i);
      copy_bytes(bytes.data(), member_.slot(static_cast<int>(r), step) + self * stride,
                 bytes.size());
    }
  };
  run_locked(call, divide_up(largest, stride), timeout, send, receive);
}

void Collectives::abort(const std::string& why) {
  fail(ErrorKind::kCancelled,
       str("rank ", rank(), " of a group of ", size(), " ranks ended it: ", why));
}

// Takes no lock: the call that is to be ended may hold it.
void Collectives::fail(ErrorKind kind, const std::string& why) { member_.fail(kind, why); }

}  // namespace manta
