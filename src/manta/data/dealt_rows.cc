#include <arrow/api.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/data/dealt_rows_internal.h"
#include "manta/data/recycling_pool_internal.h"
#include "manta/data/reordered_rows_internal.h"
#include "manta/data/row_bytes_internal.h"
#include "manta/data/stored_reader_internal.h"
#include "manta/data/wide_query_internal.h"

namespace manta::data {
namespace {

constexpr size_t kParts = 32;
constexpr int kMostDeals = 4;  // deals of one row: a million parts

uint64_t mixed(uint64_t bits) {  // the finaliser of MurmurHash3: every bit depends on every bit
  bits = (bits ^ (bits >> 33)) * 0xff51afd7ed558ccdU;
  bits = (bits ^ (bits >> 33)) * 0xc4ceb9fe1a85ec53U;
  return bits ^ (bits >> 33);
}

uint64_t hash_of(std::string_view bytes) {
  uint64_t hash = bytes.size();
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
    hash = mixed(hash ^ word);
  }
  return hash;
}

template <class Value>
void add_values(const arrow::Array& lane, std::vector<uint64_t>& hashes, const Value& value) {
  for (int64_t i = 0; i < lane.length(); ++i) {
    auto& hash = hashes[static_cast<size_t>(i)];
    hash = mixed(hash ^ (lane.IsNull(i) ? 1 : hash_of(value(i))));
  }
}

// Equal values of a lane have equal hashes, also those of binary and of large_binary.
void add_lane(const arrow::Array& lane, std::vector<uint64_t>& hashes) {
  if (lane.type_id() == arrow::Type::BINARY) {
    auto& texts = static_cast<const arrow::BinaryArray&>(lane);
    return add_values(lane, hashes, [&](int64_t i) { return texts.GetView(i); });
  }
  if (lane.type_id() == arrow::Type::LARGE_BINARY) {
    auto& texts = static_cast<const arrow::LargeBinaryArray&>(lane);
    return add_values(lane, hashes, [&](int64_t i) { return texts.GetView(i); });
  }
  auto width = static_cast<size_t>(lane.type()->byte_width());
  auto* values = reinterpret_cast<const char*>(lane.data()->buffers[1]->data()) +
                 width * static_cast<size_t>(lane.offset());
  add_values(lane, hashes, [&](int64_t i) {
    return std::string_view(values + width * static_cast<size_t>(i), width);
  });
}

/// Rows of one input on their way to the files of the parts.
class Dealer {
 public:
  Dealer(const KeyedInput& input, const DealOptions& options, int deal)
      : first_key_(input.first_key), options_(options), deal_(deal) {
    for (auto& store : stores_) {
      store = std::make_unique<RowStore>(nullptr, "a part of the rows of " + options.doing);
    }
  }

  void add(const std::shared_ptr<arrow::RecordBatch>& batch) {
    auto rows = static_cast<size_t>(batch->num_rows());
    auto parts = parts_of(*batch);
    std::array<size_t, kParts + 1> ends = {};
    for (uint8_t part : parts) ++ends[part + 1U];
    for (size_t part = 0; part < kParts; ++part) ends[part + 1] += ends[part];
    auto begins = ends;
    order_.resize(rows);
    for (size_t row = 0; row < rows; ++row) {
      order_[ends[parts[row]]++] = static_cast<uint32_t>(row);
    }
    auto dealt = reordered({with_names(*batch)}, order_);
    for (size_t part = 0; part < kParts; ++part) {
      auto first = static_cast<int64_t>(begins[part]);
      int64_t count = static_cast<int64_t>(ends[part]) - first;
      if (count > 0) stores_[part]->add(dealt->Slice(first, count));
    }
    // Few rows of a part can keep whole batches alive, so all of them are written at once.
    waiting_bytes_ += bytes_of_rows(*dealt, 0, dealt->num_rows());
    if (waiting_bytes_ < options_.memory_bytes / 8) return;
    for (auto& store : stores_) store->end_fragment();
    waiting_bytes_ = 0;
  }

  std::vector<std::shared_ptr<const StoredRows>> finish() {
    std::vector<std::shared_ptr<const StoredRows>> all;
    for (auto& store : stores_) all.push_back(store->finish());
    return all;
  }

 private:
  std::vector<uint8_t> parts_of(const arrow::RecordBatch& batch) const {
    std::vector<uint64_t> hashes(static_cast<size_t>(batch.num_rows()), 0);
    for (size_t key = 0; key < options_.keys; ++key) {
      add_lane(*batch.column(static_cast<int>(first_key_ + key)), hashes);
    }
    std::vector<uint8_t> parts;
    parts.reserve(hashes.size());
    // Each deal uses five bits that the deals before have not used.
    for (uint64_t hash : hashes) {
      parts.push_back(static_cast<uint8_t>((hash >> (5 * deal_)) % kParts));
    }
    return parts;
  }

  const size_t first_key_;
  const DealOptions& options_;
  const int deal_;
  std::array<std::unique_ptr<RowStore>, kParts> stores_;
  std::vector<uint32_t> order_;
  int64_t waiting_bytes_ = 0;
};

NextBatch reading(const std::shared_ptr<const StoredRows>& rows) {
  auto names = rows->schema() ? rows->schema()->field_names() : std::vector<std::string>{};
  auto reader = std::make_shared<StoredReader>(rows, std::move(names));
  return [reader] { return reader->next(); };
}

// Allocators keep memory for a while after it is freed. The next step uses all the memory that it
// may, so together that would be too much.
void release_unused_memory() {
  RecyclingPool::instance().ReleaseUnused();
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

/// One query, with the results of the parts that are done.
class DealtQuery {
 public:
  DealtQuery(const DealOptions& options, const PartQuery& query)
      : options_(options), query_(query) {}

  // False if stopped, here and below.
  bool deal(const std::vector<KeyedInput>& inputs, int number) {
    std::vector<std::vector<std::shared_ptr<const StoredRows>>> dealt;
    for (const auto& input : inputs) {
      Dealer dealer(input, options_, number);
      while (auto batch = input.next()) {
        if (stopped()) return false;
        dealer.add(batch);
      }
      if (stopped()) return false;
      dealt.push_back(dealer.finish());
    }
    release_unused_memory();
    for (size_t part = 0; part < kParts; ++part) {
      std::vector<std::shared_ptr<const StoredRows>> rows;
      // Taken out, so that its files go once it is done.
      for (auto& of_input : dealt) rows.push_back(std::move(of_input[part]));
      if (!run(inputs, rows, number)) return false;
    }
    return true;
  }

  std::vector<std::shared_ptr<const StoredRows>> results() { return std::move(results_); }

 private:
  bool run(const std::vector<KeyedInput>& inputs,
           const std::vector<std::shared_ptr<const StoredRows>>& rows, int number) {
    int64_t count = 0;
    for (const auto& each : rows) count += each->rows();
    if (count == 0) return true;
    try {
      RowStore results(nullptr, "results of " + options_.doing);
      std::vector<NextBatch> parts;
      for (const auto& each : rows) parts.push_back(reading(each));
      if (!query_(parts, results)) return false;
      results_.push_back(results.finish());
      return true;
    } catch (const TooLittleMemory&) {
      if (number + 1 == kMostDeals) throw;
    }
    std::vector<KeyedInput> again = inputs;
    for (size_t i = 0; i < again.size(); ++i) again[i].next = reading(rows[i]);
    return deal(again, number + 1);
  }

  bool stopped() const { return options_.stopping && options_.stopping(); }

  const DealOptions& options_;
  const PartQuery& query_;
  std::vector<std::shared_ptr<const StoredRows>> results_;
};

}  // namespace

std::optional<std::vector<std::shared_ptr<const StoredRows>>> run_dealt(
    const std::vector<KeyedInput>& inputs, const DealOptions& options, const PartQuery& query) {
  DealtQuery dealt(options, query);
  if (!dealt.deal(inputs, 0)) return std::nullopt;
  release_unused_memory();
  return dealt.results();
}

std::shared_ptr<arrow::RecordBatch> with_names(const arrow::RecordBatch& lanes) {
  arrow::FieldVector fields;
  for (int i = 0; i < lanes.num_columns(); ++i) {
    fields.push_back(arrow::field(str("c", i), lanes.column(i)->type()));
  }
  return arrow::RecordBatch::Make(arrow::schema(fields), lanes.num_rows(), lanes.columns());
}

AllRows one_after_another(std::vector<std::shared_ptr<const StoredRows>> parts,
                          const AllRows& like) {
  AllRows all = like;
  all.schema = nullptr;  // that of the rows before the operation
  all.bytes = 0;
  for (const auto& part : parts) *all.bytes += part->bytes();
  all.next = [parts = std::move(parts), next = size_t{0},
              read = NextBatch()]() mutable -> std::shared_ptr<arrow::RecordBatch> {
    while (true) {
      if (!read && next == parts.size()) return nullptr;
      if (!read) read = reading(std::exchange(parts[next++], nullptr));
      if (auto batch = read()) return batch;
      read = nullptr;
    }
  };
  return all;
}

}  // namespace manta::data
