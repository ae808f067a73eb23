#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/shard_internal.h"
#include "manta/io/unix_transport_internal.h"

/// For tests: a data reader and its workers, all of them threads. tests/ has them as processes.
namespace manta::data {

/// The steps of one or several epochs; each step is the ids of its rows, in order.
using Steps = std::vector<std::vector<int64_t>>;

struct Walk {
  ShardBatchOptions options = {};
  Position from = {};
  int64_t epochs = 1;
  int64_t max_steps = -1;  // of all epochs together
  FeedOptions feed = {.threads = [] { return 2; }};
  /// How long a worker waits for a message of the reader.
  std::chrono::milliseconds patience = std::chrono::seconds(60);
  /// This many readers, as if on this many hosts, share the ranks (rank mod hosts) and the windows.
  int hosts = 1;
  bool always_split = true;
  std::function<void(const std::string&)> tell = {};
  MeasureReading measure = measure_reading;
  std::optional<double> bytes_per_second = {};
  /// Called in every worker with each of its batches.
  std::function<void(const arrow::RecordBatch&)> look = {};
};

struct Walked {
  Steps steps;
  std::vector<Position> positions;  // after each step
  int64_t rows_decoded = 0;         // in the last epoch that ended
};

/// One for each rank; `reader_ends` are what the reader is to be given.
inline std::vector<std::shared_ptr<FeedClient>> make_clients(
    int world, std::vector<UniqueFd>& reader_ends,
    std::chrono::milliseconds patience = std::chrono::seconds(60)) {
  std::vector<std::shared_ptr<FeedClient>> clients;
  for (int rank = 0; rank < world; ++rank) {
    auto [mine, other] = socket_pair();
    clients.push_back(std::make_shared<FeedClient>(std::move(mine), rank, world, patience));
    reader_ends.push_back(std::move(other));
  }
  return clients;
}

/// The peers of the readers of several hosts, connected with each other.
inline std::vector<FeedPeers> make_peers(int hosts, int world) {
  std::vector<FeedPeers> peers(static_cast<size_t>(hosts));
  for (int node = 0; node < hosts; ++node) {
    FeedPeers& each = peers[static_cast<size_t>(node)];
    each.node = node;
    each.connections.resize(static_cast<size_t>(hosts));
    for (int other = 0; other < hosts; ++other) each.hosts.push_back("n" + std::to_string(other));
    for (int rank = 0; rank < world; ++rank) each.node_ranks.push_back(rank % hosts);
  }
  for (size_t i = 0; i < peers.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      auto [a, b] = socket_pair();
      peers[i].connections[j] = std::make_unique<UnixTransport>(std::move(a));
      peers[j].connections[i] = std::make_unique<UnixTransport>(std::move(b));
    }
  }
  return peers;
}

/// A thread for each reader, which ends with its workers.
inline std::vector<std::thread> serve(const Dataset& dataset, std::vector<UniqueFd> ends,
                                      const Walk& options) {
  std::vector<FeedPeers> peers(1);
  if (options.hosts > 1) peers = make_peers(options.hosts, static_cast<int>(ends.size()));
  std::vector<std::thread> readers;
  for (size_t node = 0; node < peers.size(); ++node) {
    std::vector<UniqueFd> own;
    for (size_t rank = node; rank < ends.size(); rank += peers.size())
      own.push_back(std::move(ends[rank]));
    peers[node].always = options.always_split;
    peers[node].tell = options.tell;
    peers[node].measure = options.measure;
    peers[node].bytes_per_second = options.bytes_per_second;
    readers.emplace_back([plan = dataset.plan(), own = std::move(own), feed = options.feed,
                          peer = std::move(peers[node])]() mutable {
      serve_feed({{"train", plan}}, std::move(own), feed, std::move(peer));
    });
  }
  return readers;
}

/// The results of all ranks, put together; checks that they agree.
inline Walked walk(const Dataset& dataset, int world, const Walk& options) {
  std::vector<UniqueFd> reader_ends;
  auto clients = make_clients(world, reader_ends, options.patience);
  std::vector<std::thread> readers = serve(dataset, std::move(reader_ends), options);
  std::vector<std::future<Walked>> parts;
  for (int rank = 0; rank < world; ++rank) {
    parts.push_back(std::async(std::launch::async, [&, client = clients[rank]]() mutable {
      Walked part;
      auto state = std::make_shared<ShardState>(std::move(client), "train", options.from);
      DataShard shard(state);
      auto full = [&] {
        return options.max_steps >= 0 &&
               static_cast<int64_t>(part.steps.size()) >= options.max_steps;
      };
      for (int64_t i = 0; i < options.epochs && !full(); ++i) {
        for (const auto& batch : shard.iter_batches(options.options)) {
          part.steps.push_back(ints(*batch, "id"));
          part.positions.push_back(state->position);
          if (options.look) options.look(*batch);
          if (full()) break;
        }
        part.rows_decoded = state->rows_decoded;
      }
      return part;
    }));
  }
  clients.clear();
  Walked all;
  std::exception_ptr error;
  for (int rank = 0; rank < world; ++rank) {
    try {
      Walked part = parts[static_cast<size_t>(rank)].get();
      if (rank == 0) {
        all = part;
        continue;
      }
      EXPECT_EQ(part.steps.size(), all.steps.size());
      EXPECT_EQ(part.positions, all.positions);
      for (size_t i = 0; i < std::min(all.steps.size(), part.steps.size()); ++i) {
        all.steps[i].insert(all.steps[i].end(), part.steps[i].begin(), part.steps[i].end());
      }
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  for (auto& reader : readers) reader.join();
  if (error) std::rethrow_exception(error);
  return all;
}

}  // namespace manta::data
