#include <arrow/api.h>

#include <algorithm>
#include <iostream>

#include "manta/base/error.h"
#include "manta/data/dataset.h"
#include "manta/data/pipeline_internal.h"

namespace manta {
namespace {

constexpr size_t kWidestCell = 32;

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

// 1, 2, 3, 7 as "1-3, 7".
std::string ranges(const std::vector<size_t>& numbers) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    parts.push_back(i == end ? str(numbers[i]) : str(numbers[i], "-", numbers[end]));
    i = end + 1;
  }
  return join(parts);
}

std::string cell(const arrow::Table& table, int column, int64_t row) {
  auto scalar = table.column(column)->GetScalar(row);
  std::string text = !scalar.ok() ? "?" : !(*scalar)->is_valid ? "null" : (*scalar)->ToString();
  if (text.size() > kWidestCell) text = text.substr(0, kWidestCell - 3) + "...";
  return text;
}

}  // namespace

std::string Dataset::explain() const {
  data::Pipeline pipeline(plan_);
  auto& source = *plan_->source;
  const auto& fragments = source.fragments();
  int64_t rows = 0;
  std::vector<size_t> skipped;
  for (size_t i = 0; i < fragments.size(); ++i) {
    rows += fragments[i].rows;
    if (pipeline.skips(i)) skipped.push_back(i);
  }
  std::string text = str("read_parquet: ", source.files().size(), " files, ", fragments.size(),
                         " row groups, ", rows, " rows; first file '", source.files()[0], "'\n");
  text += str("  reads ", pipeline.columns_read().size(), " of ", plan_->columns.size(),
              " columns: ", join(pipeline.columns_read()), "\n");
  text += str("  skips ", skipped.size(), " of ", fragments.size(), " row groups",
              skipped.empty() ? "" : ": ", ranges(skipped), "\n");
  for (const auto& operation : plan_->operations) text += operation.to_string() + "\n";
  return text;
}

void Dataset::show(int64_t n) const {
  auto table = take(n);
  int columns = table->num_columns();
  std::vector<std::vector<std::string>> lines(static_cast<size_t>(table->num_rows()) + 1);
  for (int i = 0; i < columns; ++i) {
    lines[0].push_back(table->field(i)->name());
    for (int64_t row = 0; row < table->num_rows(); ++row) {
      lines[static_cast<size_t>(row) + 1].push_back(cell(*table, i, row));
    }
  }
  for (const auto& line : lines) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i) {
      size_t width = 0;
      for (const auto& other : lines) width = std::max(width, other[i].size());
      text += std::string(width - line[i].size() + (i == 0 ? 0 : 2), ' ') + line[i];
    }
    std::cout << text << "\n";
  }
  std::cout << std::flush;
}

}  // namespace manta
