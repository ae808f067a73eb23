#include <chrono>
#include <set>

#include "manta/base/error_internal.h"
#include "manta/io/checksum_internal.h"
#include "manta/train/checkpoint.h"
#include "manta/train/file_internal.h"
#include "manta/train/journal_internal.h"
#include "manta/train/manifest_internal.h"

namespace manta::train {
namespace {

constexpr const char* kChecksum = "checksum";
constexpr int kVersion = 2;
// Enough for 600,000 files.
constexpr JsonLimits kManifestLimits{.bytes = kMostManifestBytes};

// The checksum of the printed values: it does not depend on the layout of the file.
std::string checksum_of(Json manifest) {
  manifest.erase(kChecksum);
  std::string text = to_text(manifest);
  Checksum checksum;
  checksum.add(text.data(), text.size());
  return checksum.hex();
}

void check_files(const JsonFields& manifest, const std::string& document) {
  std::set<std::string> names;
  int64_t left = INT64_MAX;
  const Json& files = manifest.array("files");
  for (size_t i = 0; i < files.size(); ++i) {
    JsonFields file(files[i], document, str("files[", i, "]."));
    std::string name = file.text("name");
    try {
      check_file_name(name);
    } catch (const Error& error) {
      file.fail("name", str("the name of a file in the checkpoint: ", error.what()));
    }
    if (!names.insert(name).second) file.fail("name", "each file once");
    left -= file.integer("size", 0, left);
    if (file.text(kChecksum).size() != 16) file.fail(kChecksum, "16 hexadecimal digits");
  }
}

}  // namespace

void write_manifest(const std::string& checkpoint, Json manifest) {
  // The journal must be able to store the report, too: otherwise there would be a checkpoint
  // without a report.
  check_report(manifest.at("report"), manifest.at("metrics"), manifest.at("positions"));
  manifest["version"] = kVersion;
  manifest[kChecksum] = checksum_of(manifest);
  std::string what = str("the manifest of '", checkpoint, "', with the names of its files,");
  replace_file(checkpoint + "/" + kManifestFile,
               readable_text(manifest, what, "report fewer files", kManifestLimits, /*indent=*/1));
}

Json manifest_of(const std::vector<CheckpointFile>& files) {
  std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  Json manifest = {{"report", 0},
                   {"attempt", 0},
                   {"time", now.count()},
                   {"world_size", 1},
                   {"files", Json::array()},
                   {"metrics", Json::object()},
                   {"positions", Json::object()}};
  for (const CheckpointFile& file : files)
    manifest["files"].push_back(
        {{"name", file.name}, {"size", file.size}, {"checksum", file.checksum}});
  return manifest;
}

Json read_manifest(const std::string& checkpoint) {
  std::string path = checkpoint + "/" + kManifestFile;
  std::string text;
  try {
    text = read_text(path, kMostManifestBytes);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    throw Error(ErrorKind::kNotFound,
                str("'", checkpoint, "' is not a checkpoint: it has no ", kManifestFile,
                    " (expected a folder such as <run folder>/checkpoint_000003; of the files of ",
                    "any other folder, Checkpoint::from_files makes a checkpoint)"));
  }
  return parse_manifest(text, str("'", path, "'"));
}

Json parse_manifest(std::string_view text, const std::string& document) {
  Json manifest = parse_json(text, document, kManifestLimits);
  JsonFields fields(manifest, document);
  int64_t version = fields.integer("version", 1, kVersion);
  if (version > 1) {
    std::string stored = fields.text(kChecksum), actual = checksum_of(manifest);
    if (stored != actual) fields.fail(kChecksum, str("\"", actual, "\", that of its content"));
  }
  check_files(fields, document);
  fields.integer("report", 0, kMostReports);
  fields.integer("attempt", 0, kMostAttempts);
  fields.integer("world_size", 1, kMostWorkers);
  fields.number("time", -kMostSeconds, kMostSeconds);
  fields.object_or_null("metrics");
  fields.object_or_null("positions");
  return manifest;
}

}  // namespace manta::train
