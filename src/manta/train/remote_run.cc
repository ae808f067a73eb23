#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/random_token_internal.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/journal_internal.h"
#include "manta/train/manifest_internal.h"
#include "manta/train/params_internal.h"
#include "manta/train/remote_checkpoint_internal.h"
#include "manta/train/remote_run_internal.h"

namespace manta::train {
namespace {

constexpr const char* kOwner = "owner.json";
constexpr const char* kRemoteParams = "params.json";
constexpr const char* kJournals = "journal";
constexpr const char* kPartEnd = ".jsonl";
constexpr JsonLimits kOwnerLimits{.bytes = 4096, .depth = 4, .values = 100};
constexpr int64_t kMostOwners = 1'000'000'000;
constexpr size_t kTokenDigits = 32;
constexpr std::chrono::milliseconds kFreshOnTheWay{1000};

std::string hex(std::string_view bytes, size_t digits) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; 2 * i < digits; ++i) {
    auto byte = static_cast<unsigned char>(bytes[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string six_digits(int64_t number) {
  std::string digits = std::to_string(number);
  return std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
}

bool has_only(std::string_view text, const char* characters) {
  return text.find_first_not_of(characters) == std::string_view::npos;
}

// "000001-<token>", which becomes part of an address.
bool is_journal_name(std::string_view name) {
  size_t dash = name.find('-');
  return dash >= 6 && dash <= 10 && has_only(name.substr(0, dash), "0123456789") &&
         name.size() == dash + 1 + kTokenDigits &&
         has_only(name.substr(dash + 1), "0123456789abcdef");
}

struct OwnerRecord {
  int64_t generation = 1;
  std::string token;
  std::string before;  // the folder of the journal that counts until the owner's own is whole
  std::string host;
  int64_t pid = 0;

  std::string journal() const { return str(six_digits(generation), "-", token); }
  std::string who() const { return str("process ", pid, " on ", host); }
};

OwnerRecord read_owner(const RemoteAddress& run) {
  RemoteAddress address = run.child(kOwner);
  std::string document = str("'", address.text(), "'");
  Json json = parse_json(read_remote(address, kOwnerLimits.bytes), document, kOwnerLimits);
  JsonFields fields(json, document);
  OwnerRecord owner;
  owner.generation = fields.integer("generation", 1, kMostOwners);
  owner.token = fields.text("token", 100);
  if (owner.token.size() != kTokenDigits || !has_only(owner.token, "0123456789abcdef"))
    fields.fail("token", str(kTokenDigits, " hexadecimal digits"));
  owner.before = fields.text("before", 100);
  if (!owner.before.empty() && !is_journal_name(owner.before))
    fields.fail("before", "the name of a folder in journal, or \"\"");
  owner.host = fields.text("host", 256);
  owner.pid = fields.integer("pid", 0, INT64_MAX);
  return owner;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

[[noreturn]] void no_run(const RemoteAddress& address) {
  throw Error(ErrorKind::kNotFound,
              str("there is no run at '", address.text(), "': it has no ", kOwner,
                  " (expected the address of a run, as in Result::path)"));
}

// The parts of a journal, in order, with their sizes.
std::vector<RemoteFileInfo> parts_of(const RemoteAddress& journal) {
  std::map<int64_t, RemoteFileInfo> found;
  for (RemoteFileInfo& file : list_files_below(journal)) {
    std::string name = file.address.path.substr(file.address.path.rfind('/') + 1);
    if (!name.ends_with(kPartEnd)) continue;
    std::string digits = name.substr(0, name.size() - std::string(kPartEnd).size());
    if (digits.size() < 6 || digits.size() > 12 || !has_only(digits, "0123456789")) continue;
    found.emplace(std::stoll(digits), std::move(file));
  }
  std::vector<RemoteFileInfo> parts;
  uint64_t bytes = 0;
  for (auto& [number, file] : found) {
    if (number != static_cast<int64_t>(parts.size()))
      throw Error(ErrorKind::kCorrupt, str("the journal at '", journal.text(), "' has no part ",
                                           six_digits(static_cast<int64_t>(parts.size())),
                                           ", but part ", six_digits(number)));
    bytes += static_cast<uint64_t>(file.size);
    if (bytes > kLargestJournal)
      throw Error(ErrorKind::kCorrupt, str("the journal at '", journal.text(), "' has more than ",
                                           kLargestJournal, " bytes"));
    parts.push_back(std::move(file));
  }
  return parts;
}

// The names of what is below an address.
std::map<std::string, RemoteFileInfo> names_below(const RemoteAddress& folder) {
  std::map<std::string, RemoteFileInfo> names;
  for (RemoteFileInfo& file : list_files_below(folder)) {
    if (!file.address.path.starts_with(folder.path + "/")) continue;
    std::string name = file.address.path.substr(folder.path.size() + 1);
    names.emplace(std::move(name), std::move(file));
  }
  return names;
}

// What is neither a checkpoint nor written by this class. What trackers append to must be there,
// or the next upload would replace it by less.
void download_others(const RemoteAddress& run, const std::string& folder) {
  for (const auto& [name, file] : names_below(run)) {
    std::string top = name.substr(0, name.find('/'));
    if (top == kOwner || top == kRemoteParams || top == kJournals || top == "journal.jsonl" ||
        top.starts_with(".") || checkpoint_index(top)) {
      continue;
    }
    try {
      check_file_name(name);
    } catch (const Error& error) {
      throw Error(ErrorKind::kCorrupt, str("the run at '", run.text(), "': ", error.what()));
    }
    std::string path = folder + "/" + name;
    make_folders(std::filesystem::path(path).parent_path());
    UniqueFd fd = open_file(folder, name, O_WRONLY | O_CREAT | O_EXCL);
    download_file(file.address, static_cast<uint64_t>(file.size), fd.get(), path);
    if (::close(fd.release()) != 0) throw_errno(str("closing '", path, "'"));
  }
}

}  // namespace

RemoteRun::RemoteRun(RemoteAddress address)
    : address_(std::move(address)), token_(hex(random_token(), kTokenDigits)) {}

void RemoteRun::claim(int64_t generation, const std::string& before) {
  generation_ = generation;
  before_ = before;
  Json owner = {{"generation", generation},
                {"token", token_},
                {"before", before},
                {"host", host_name()},
                {"pid", ::getpid()}};
  write_remote(address_.child(kOwner), to_text(owner, 1) + "\n");
  looked_at_ = {};
  require_owner();  // two may have written
}

RemoteRun RemoteRun::create(const RemoteAddress& address) {
  RemoteRun run(address);
  try {
    if (exists(address))
      throw Error(ErrorKind::kInvalidArgument,
                  str("there is a run at '", address.text(),
                      "' already; take another RunConfig::name, or restore it to go on with it"));
    run.claim(1, "");
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kNotFound)
      throw Error(ErrorKind::kNotFound,
                  str("RunConfig::storage_path: ", error.what(),
                      "; make the bucket, or give the address of one that exists"));
    throw;
  }
  return run;
}

RemoteRun RemoteRun::take_over(const RemoteAddress& address, const std::string& from_token) {
  RemoteRun run(address);
  OwnerRecord owner;
  try {
    owner = read_owner(address);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kNotFound) no_run(address);
    throw;
  }
  if (!from_token.empty() && from_token != owner.token)
    throw Error(ErrorKind::kIo, str("the run at '", address.text(), "' has been taken over by ",
                                    owner.who(), " since; restore it from that address"));
  run.claim(owner.generation + 1, owner.before.empty() ? owner.journal() : owner.before);
  return run;
}

bool RemoteRun::exists(const RemoteAddress& address) try {
  return look_at(address.child(kOwner)).kind == RemoteEntry::kFile;
} catch (const Error& error) {
  if (error.kind() != ErrorKind::kNotFound) throw;
  return false;  // there is no such bucket
}

std::string RemoteRun::read_params(const RemoteAddress& address) {
  try {
    return read_remote(address.child(kRemoteParams), kMostParamsBytes);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kNotFound) no_run(address);
    throw;
  }
}

std::map<int64_t, Checkpoint> RemoteRun::checkpoints(const RemoteAddress& address,
                                                     std::set<int64_t>* others) {
  std::map<int64_t, bool> has_manifest;
  for (const auto& [name, file] : names_below(address)) {
    size_t slash = name.find('/');
    if (slash == std::string::npos) continue;
    if (auto index = checkpoint_index(name.substr(0, slash)))
      has_manifest[*index] |= name.substr(slash + 1) == kManifestFile;
  }
  std::map<int64_t, Checkpoint> found;
  for (const auto& [index, complete] : has_manifest) {
    RemoteAddress at = address.child(checkpoint_name(index));
    try {
      if (complete) {
        Json manifest = read_remote_manifest(at);
        auto report = manifest.at("report").get<int64_t>();
        if (report != index)
          throw Error(ErrorKind::kCorrupt,
                      str("'", at.text(), "' holds the checkpoint of report ", report));
        found.emplace(index, StoredCheckpoint::at(at.text(), std::move(manifest)));
      }
    } catch (const Error& error) {
      if (!is_damage(error)) throw;
      log_warning(str(error.what(), "; it is not used"));
    }
    if (others && !found.contains(index)) others->insert(index);
  }
  return found;
}

void RemoteRun::download(const std::string& folder) const {
  replace_file(folder + "/params.json", read_params(address_));
  std::string path = folder + "/journal.jsonl";
  UniqueFd fd = open_file(folder, "journal.jsonl", O_WRONLY | O_CREAT | O_EXCL);
  if (before_.empty()) return;
  for (const RemoteFileInfo& part : parts_of(address_.child(kJournals).child(before_)))
    download_file(part.address, static_cast<uint64_t>(part.size), fd.get(), path);
  if (::close(fd.release()) != 0) throw_errno(str("closing '", path, "'"));
  download_others(address_, folder);
}

void RemoteRun::require_owner(std::chrono::milliseconds fresh_for) {
  auto now = std::chrono::steady_clock::now();
  bool is_fresh = looked_at_.time_since_epoch().count() != 0 && now - looked_at_ < fresh_for;
  if (is_fresh && !superseded_) return;
  auto lost = [&](const std::string& why) {
    superseded_ = true;
    throw Error(ErrorKind::kIo, str("this driver may not write to the run at '", address_.text(),
                                    "' any more: ", why));
  };
  OwnerRecord owner;
  try {
    owner = read_owner(address_);
  } catch (const Error& error) {
    if (!is_damage(error)) throw;
    lost(error.what());
  }
  if (owner.token != token_) lost(str(owner.who(), " has taken it over"));
  looked_at_ = now;
}

RemoteAddress RemoteRun::checkpoint_at(int64_t index) const {
  return address_.child(checkpoint_name(index));
}

void RemoteRun::put_params(std::string_view text) {
  require_owner();
  write_remote(address_.child(kRemoteParams), text);
}

void RemoteRun::put_journal(int64_t number, std::string_view lines) {
  require_owner();
  std::string journal = str(six_digits(generation_), "-", token_);
  write_remote(address_.child(kJournals).child(journal).child(six_digits(number) + kPartEnd),
               lines);
}

void RemoteRun::journal_is_whole() {
  if (before_.empty()) return;
  require_owner();
  claim(generation_, "");
  std::string own = str(six_digits(generation_), "-", token_);
  RemoteAddress journals = address_.child(kJournals);
  std::set<std::string> others;
  for (const auto& [path, file] : names_below(journals)) {
    std::string name = path.substr(0, path.find('/'));
    if (is_journal_name(name) && name != own) others.insert(std::move(name));
  }
  try {
    for (const std::string& name : others) remove_remote_folder(journals.child(name));
  } catch (const Error& error) {
    log_warning(str("the journal of an earlier driver stays, which does no harm: ", error.what()));
  }
}

// For upload_file: whoever was superseded leaves nothing.
std::function<void(bool)> RemoteRun::as_owner(const std::function<void()>& at_times) {
  return [this, at_times](bool is_last) {
    require_owner(is_last ? std::chrono::milliseconds(0) : kFreshOnTheWay);
    at_times();
  };
}

void RemoteRun::put_checkpoint(int64_t index, const std::string& folder,
                               const std::function<void()>& at_times) {
  Json manifest = read_manifest(folder);
  RemoteAddress to = checkpoint_at(index);
  for (const Json& file : manifest["files"]) {
    std::string name = file["name"];
    upload_file(folder, name, to.child(name), as_owner(at_times));
  }
  upload_file(folder, kManifestFile, to.child(kManifestFile), as_owner(at_times));
}

void RemoteRun::remove_checkpoint(int64_t index) {
  require_owner();
  remove_remote(checkpoint_at(index).child(kManifestFile));
  remove_remote_folder(checkpoint_at(index));
}

void RemoteRun::put_file(const std::string& folder, const std::string& name,
                         const std::function<void()>& at_times) {
  upload_file(folder, name, address_.child(name), as_owner(at_times));
}

void RemoteRun::forget(const std::vector<std::string>& files) {
  require_owner();
  for (const std::string& name : files) remove_remote(address_.child(name));
  remove_remote(address_.child(kRemoteParams));
  remove_remote_folder(address_.child(kJournals));
  remove_remote(address_.child(kOwner));
}

}  // namespace manta::train
