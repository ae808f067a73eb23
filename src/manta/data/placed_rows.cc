#include <arrow/api.h>

#include <optional>

#include "manta/data/group_calls_internal.h"
#include "manta/data/placed_rows_internal.h"
#include "manta/data/row_bytes_internal.h"

namespace manta::data {
namespace {

using BatchPtr = std::shared_ptr<arrow::RecordBatch>;

// The most bytes that a row can have, if that is known.
std::optional<int64_t> most_bytes_of_row(const PlacedRows& rows) {
  int64_t bytes = 0;
  for (const auto& field : rows.schema->fields()) {
    auto beside_text = bytes_beside_text(*field->type());
    if (!beside_text) return std::nullopt;
    bytes += *beside_text;
  }
  for (const auto& side : rows.sides) bytes += side->most_text_bytes();
  return bytes;
}

/// Collects places, and hands on the rows instead once there are too many.
class PlaceCollector {
 public:
  PlaceCollector(const PlacedRows& rows, int64_t row_bytes, int64_t room, RowSink& sink)
      : names_(rows.schema->field_names()),
        deferred_(std::make_shared<DeferredRows>(rows.schema, row_bytes, rows.make)),
        make_(rows.make),
        bytes_of_places_(static_cast<int64_t>(rows.sides.size() * sizeof(int64_t))),
        room_(room),
        sink_(sink) {}

  void add(const BatchPtr& places) {
    if (!deferred_) return sink_.add(make_(*places, names_));
    deferred_->add(places);
    if (deferred_->rows() * bytes_of_places_ <= room_) return;
    for (size_t i = 0; i < deferred_->fragments().size(); ++i) {
      for (const auto& batch : deferred_->read(i, names_)) sink_.add(batch);
    }
    deferred_ = nullptr;
  }

  void finish() {
    if (deferred_) sink_.use(std::move(deferred_));
  }

 private:
  const std::vector<std::string> names_;
  std::shared_ptr<DeferredRows> deferred_;  // null: there are too many
  const DeferredRows::Make make_;
  const int64_t bytes_of_places_, room_;
  RowSink& sink_;
};

}  // namespace

GivePlaces PlacedRows::places_of(WideQuery& query, const std::string& sql) const {
  return [&query, sql, lanes = std::vector(sides.size(), arrow::int64())](const auto& take) {
    return query.run(sql, lanes, take);
  };
}

bool give_rows(const GivePlaces& places, const PlacedRows& rows, int threads,
               const std::function<void(const BatchPtr&)>& take) {
  std::vector<const KeptRows*> sides;
  for (const auto& side : rows.sides) sides.push_back(side.get());
  GatheredParts parts(std::move(sides));
  auto names = rows.schema->field_names();
  // Each part is a task of its own: several of them could be too large together.
  GroupCalls<BatchPtr> calls([&](const BatchPtr& part) { return rows.make(*part, names); }, take,
                             threads, /*done=*/nullptr, /*rows_of_a_task=*/1);
  bool ended = places([&](const BatchPtr& batch) {
    for (int64_t row = 0; row < batch->num_rows();) {
      int64_t length = parts.rows(*batch, row);
      calls.add(batch->Slice(row, length));
      row += length;
    }
  });
  if (ended) calls.finish();
  return ended;
}

bool give_rows(const GivePlaces& places, const PlacedRows& rows, int threads, int64_t room,
               RowSink& sink) {
  auto row_bytes = most_bytes_of_row(rows);
  if (!row_bytes || !is_cut_by_rows_only(*row_bytes)) {
    return give_rows(places, rows, threads, [&](const BatchPtr& batch) { sink.add(batch); });
  }
  PlaceCollector collector(rows, *row_bytes, room, sink);
  bool ended = places([&](const BatchPtr& batch) { collector.add(batch); });
  if (ended) collector.finish();
  return ended;
}

}  // namespace manta::data
