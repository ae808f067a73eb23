#include "manta/base/error_internal.h"
#include "manta/data/source_internal.h"

namespace manta::data {

// Every source that a plan may have. Its file defines `read_<name>_source`.
#define MANTA_SOURCES(EACH) \
  EACH(parquet)             \
  EACH(csv)                 \
  EACH(json)                \
  EACH(text) EACH(binary) EACH(numpy) EACH(images) EACH(range) EACH(partitioned) EACH(sql)

#define MANTA_DECLARE(name) std::shared_ptr<Source> read_##name##_source(const JsonFields&);
MANTA_SOURCES(MANTA_DECLARE)
#undef MANTA_DECLARE

namespace {

struct SourceEntry {
  const char* name;
  std::shared_ptr<Source> (*read)(const JsonFields&);
};

#define MANTA_ENTRY(name) {#name, read_##name##_source},
constexpr SourceEntry kSources[] = {MANTA_SOURCES(MANTA_ENTRY)};
#undef MANTA_ENTRY

}  // namespace

std::shared_ptr<Source> read_source(const JsonFields& fields) {
  std::string name = fields.has("name") ? fields.text("name") : "parquet";
  for (const auto& entry : kSources) {
    if (name == entry.name) return entry.read(fields);
  }
  fields.fail("name", "the name of a source");
}

Json source_to_json(Source& source) {
  Json json = source.to_json();
  json["name"] = source.name();
  return json;
}

}  // namespace manta::data
