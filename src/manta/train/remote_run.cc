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
#include "manta/train/run_files_internal.h"

namespace manta::train {
namespace {

constexpr const char* kOwner = "owner.json";
constexpr const char* kJournals = "journal";
constexpr const char* kPartEnd = ".jsonl";
constexpr const char* kWhole = "whole";
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

std::string journal_name(int64_t generation, const std::string& token) {
  return str(six_digits(generation), "-", token);
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
  std::string from;    // the journal of the owner before; empty: this is the first
  std::string before;  // the journal that counted when this owner took over
  std::string host;
  int64_t pid = 0;

  std::string journal() const { return journal_name(generation, token); }
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
  if (!RemoteRun::is_token(owner.token))
    fields.fail("token", str(kTokenDigits, " hexadecimal digits"));
  owner.from = fields.text("from", 100);
  owner.before = fields.text("before", 100);
  for (const auto& [field, name] : {std::pair("from", owner.from), {"before", owner.before}}) {
    bool is_first = owner.from.empty() && owner.before.empty();
    if (!is_first && !is_journal_name(name))
      fields.fail(field, "the name of a folder in journal, or \"\" for both");
  }
  owner.host = fields.text("host", 256);
  owner.pid = fields.integer("pid", 0, INT64_MAX);
  return owner;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

[[noreturn]] void no_run(const RemoteAddress& address, const FolderKind& kind, const char* lacks) {
  throw Error(
      ErrorKind::kNotFound,
      str("there is no ", kind.what, " at '", address.text(), "': it has no ", lacks,
          kind.trials == FolderKind::kNone ? " (expected the address of a run, as in Result::path)"
                                           : " (expected the address of an experiment, as in "
                                             "ResultGrid::experiment_path)"));
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

// The files below an address, by name.
std::map<std::string, RemoteFileInfo> names_below(const RemoteAddress& folder) {
  std::map<std::string, RemoteFileInfo> names;
  for (RemoteFileInfo& file : list_files_below(folder)) {
    if (!file.address.path.starts_with(folder.path + "/")) continue;
    std::string name = file.address.path.substr(folder.path.size() + 1);
    names.emplace(std::move(name), std::move(file));
  }
  return names;
}

bool is_file_at(const RemoteAddress& address) try {
  return look_at(address).kind == RemoteEntry::kFile;
} catch (const Error& error) {
  if (error.kind() != ErrorKind::kNotFound) throw;
  return false;  // there is no such bucket
}

bool is_whole(const RemoteAddress& run, const std::string& journal) {
  return is_file_at(run.child(kJournals).child(journal).child(kWhole));
}

// The journal that counts for an owner whose own journal is not whole. The owner before it may have
// completed its journal after it had lost the run, and then removed the journal that had counted.
std::string journal_before(const RemoteAddress& run, const std::string& from,
                           const std::string& before) {
  return from != before && is_whole(run, from) ? from : before;
}

// Writes the journal in the folder of this name; asks again which one counts if it was removed
// meanwhile.
void write_journal(const RemoteAddress& run, const std::string& folder,
                   const std::function<std::string()>& name) {
  auto write = [&](const std::string& journal) {
    std::string path = folder + "/journal.jsonl";
    UniqueFd fd = open_file(folder, "journal.jsonl", O_WRONLY | O_CREAT);
    if (::ftruncate(fd.get(), 0) != 0) throw_errno(str("emptying '", path, "'"));
    for (const RemoteFileInfo& part : parts_of(run.child(kJournals).child(journal)))
      download_file(part.address, std::nullopt, fd.get(), path);
    if (::close(fd.release()) != 0) throw_errno(str("closing '", path, "'"));
  };
  std::string journal = name(), now;
  try {
    write(journal);
    now = name();
  } catch (const Error& error) {
    if (!is_damage(error) || (now = name()) == journal) throw;
  }
  if (now != journal) write(now);
}

// The journal that counts, until another owner completes one.
std::string journal_of(const RemoteAddress& run, const OwnerRecord& owner) {
  bool counts = owner.before.empty() || is_whole(run, owner.journal());
  return counts ? owner.journal() : journal_before(run, owner.from, owner.before);
}

OwnerRecord owner_of_run(const RemoteAddress& run, const FolderKind& kind) try {
  return read_owner(run);
} catch (const Error& error) {
  if (error.kind() == ErrorKind::kNotFound) no_run(run, kind, kOwner);
  throw;
}

// Downloads the files that are neither checkpoints nor written by this class. Files that trackers
// append to must be there, or the next upload would replace them by shorter ones.
void download_others(const RemoteAddress& run, const FolderKind& kind, const std::string& folder) {
  for (const auto& [name, file] : names_below(run)) {
    if (is_name_of_run(name, kind) || is_name_of_store(name.substr(0, name.find('/')))) continue;
    try {
      check_relative_path(name, str("the name of a file of a ", kind.what));
    } catch (const Error& error) {
      throw Error(ErrorKind::kCorrupt,
                  str("the ", kind.what, " at '", run.text(), "': ", error.what()));
    }
    std::string path = folder + "/" + name;
    make_folders(std::filesystem::path(path).parent_path());
    UniqueFd fd = open_file(folder, name, O_WRONLY | O_CREAT | O_EXCL);
    download_file(file.address, std::nullopt, fd.get(), path);
    if (::close(fd.release()) != 0) throw_errno(str("closing '", path, "'"));
  }
}

}  // namespace

RemoteRun::RemoteRun(RemoteAddress address, std::string token, const FolderKind& kind)
    : address_(std::move(address)), token_(std::move(token)), kind_(kind) {
  MANTA_CHECK(is_token(token_), "a token that others would refuse");
}

std::string RemoteRun::new_token() { return hex(random_token(), kTokenDigits); }

bool RemoteRun::is_token(std::string_view text) {
  return text.size() == kTokenDigits && has_only(text, "0123456789abcdef");
}

// Written only once: a second write could undo a takeover by another process meanwhile.
void RemoteRun::claim(int64_t generation, const std::string& from, const std::string& before) {
  journal_ = journal_name(generation, token_);
  from_ = from;
  before_ = before;
  journal_is_whole_ = before.empty();
  Json owner = {{"generation", generation}, {"token", token_},     {"from", from},
                {"before", before},         {"host", host_name()}, {"pid", ::getpid()}};
  write_remote(address_.child(kOwner), to_text(owner, 1) + "\n");
  looked_at_ = {};
  require_owner();  // two processes may have written
}

RemoteRun RemoteRun::create(const RemoteAddress& address, const std::string& token,
                            const FolderKind& kind) {
  for (const FolderKind& other : {kFolderOfRun, kFolderOfFunctions}) {
    if (!exists(address, other)) continue;
    throw Error(ErrorKind::kInvalidArgument,
                str("there is ", other.trials == FolderKind::kNone ? "a " : "an ", other.what,
                    " at '", address.text(),
                    "' already; take another RunConfig::name, or restore it to go on with it"));
  }
  RemoteRun run(address, token, kind);
  try {
    run.claim(1, "", "");
  } catch (const Error& error) {
    try {
      run.forget();
    } catch (const Error&) {  // the first error says why; remaining files do not block the name
    }
    if (error.kind() == ErrorKind::kNotFound)
      throw Error(ErrorKind::kNotFound,
                  str("RunConfig::storage_path: ", error.what(),
                      "; make the bucket, or give the address of one that exists"));
    throw;
  }
  return run;
}

RemoteRun RemoteRun::take_over(const RemoteAddress& address, const std::set<std::string>& from,
                               const std::string& token, const FolderKind& kind) {
  RemoteRun run(address, token, kind);
  OwnerRecord owner = owner_of_run(address, kind);
  if (!from.empty() && !from.contains(owner.token))
    throw Error(ErrorKind::kIo,
                str("the ", kind.what, " at '", address.text(), "' has been taken over by ",
                    owner.who(), " since; restore it from that address"));
  run.claim(owner.generation + 1, owner.journal(), journal_of(address, owner));
  return run;
}

bool RemoteRun::exists(const RemoteAddress& address, const FolderKind& kind) {
  return is_file_at(address.child(kOwner)) && is_file_at(address.child(kind.document));
}

std::string RemoteRun::read_params(const RemoteAddress& address, const FolderKind& kind) {
  try {
    return read_remote(address.child(kind.document), kMostParamsBytes);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kNotFound) no_run(address, kind, kind.document);
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
  replace_file(folder + "/" + kind_.document, read_params(address_, kind_));
  write_journal(address_, folder, [this] { return earlier_journal(); });
  download_others(address_, kind_, folder);
}

std::string RemoteRun::earlier_journal() const { return journal_before(address_, from_, before_); }

void RemoteRun::download_journal(const RemoteAddress& address, const std::string& folder) {
  write_journal(address, folder,
                [&] { return journal_of(address, owner_of_run(address, kFolderOfRun)); });
}

void RemoteRun::require_owner(std::chrono::milliseconds fresh_for) {
  auto now = std::chrono::steady_clock::now();
  bool is_fresh = looked_at_.time_since_epoch().count() != 0 && now - looked_at_ < fresh_for;
  if (is_fresh && !superseded_) return;
  auto lost = [&](const std::string& why) {
    superseded_ = true;
    throw Error(ErrorKind::kIo, str("this driver may not write to the ", kind_.what, " at '",
                                    address_.text(), "' any more: ", why));
  };
  OwnerRecord owner;
  try {
    owner = read_owner(address_);
  } catch (const Error& error) {
    if (!is_damage(error)) throw;
    // A process that takes a run over does not remove this file. A share that is not mounted has no
    // file at all.
    if (error.kind() == ErrorKind::kNotFound && !is_file_at(address_.child(kind_.document)))
      throw Error(ErrorKind::kIo, str("there is nothing of the ", kind_.what, " at '",
                                      address_.text(), "' at the moment: ", error.what()));
    lost(error.what());
  }
  if (owner.journal() != journal_) lost(str(owner.who(), " has taken it over"));
  looked_at_ = now;
}

void RemoteRun::put_params(std::string_view text) {
  require_owner();
  write_remote(address_.child(kind_.document), text);
}

void RemoteRun::put_journal(int64_t number, std::string_view lines) {
  require_owner();
  write_remote(address_.child(kJournals).child(journal_).child(six_digits(number) + kPartEnd),
               lines);
}

void RemoteRun::journal_is_whole() {
  if (journal_is_whole_) return;
  require_owner();
  write_remote(address_.child(kJournals).child(journal_).child(kWhole), "\n");
  journal_is_whole_ = true;
  require_owner();
  try {
    remove_earlier_journals();
  } catch (const Error& error) {
    log_warning(str("the journal of an earlier driver stays, which does no harm: ", error.what()));
  }
}

// It does not touch the journals of later owners.
void RemoteRun::remove_earlier_journals() {
  RemoteAddress journals = address_.child(kJournals);
  auto generation = [](const std::string& name) { return std::stoll(name); };  // up to the dash
  std::set<std::string> earlier;
  for (const auto& [path, file] : names_below(journals)) {
    std::string name = path.substr(0, path.find('/'));
    if (is_journal_name(name) && generation(name) < generation(journal_))
      earlier.insert(std::move(name));
  }
  for (const std::string& name : earlier) remove_remote_folder(journals.child(name));
}

// A superseded owner leaves nothing behind.
void RemoteRun::put(const std::string& folder, const std::string& name, const RemoteAddress& to,
                    const std::function<void()>& at_times) {
  require_owner(kFreshOnTheWay);
  upload_file(folder, name, to, [&](bool is_last) {
    require_owner(is_last ? std::chrono::milliseconds(0) : kFreshOnTheWay);
    if (!is_last) at_times();
  });
  at_times();
}

void RemoteRun::put_checkpoint(const std::string& checkpoint, const std::string& folder,
                               const std::function<void()>& at_times) {
  Json manifest = read_manifest(folder);
  RemoteAddress to = address_.child(checkpoint);
  for (const Json& file : manifest["files"]) {
    std::string name = file["name"];
    put(folder, name, to.child(name), at_times);
  }
  put(folder, kManifestFile, to.child(kManifestFile), at_times);
}

void RemoteRun::remove_checkpoint(const std::string& name) {
  require_owner();
  remove_remote(address_.child(name).child(kManifestFile));
  remove_remote_folder(address_.child(name));
}

void RemoteRun::put_file(const std::string& folder, const std::string& name,
                         const std::function<void()>& at_times) {
  put(folder, name, address_.child(name), at_times);
}

void RemoteRun::forget(const std::vector<std::string>& files) {
  require_owner();
  for (const std::string& name : files) remove_remote(address_.child(name));
  remove_remote(address_.child(kind_.document));
  remove_remote_folder(address_.child(kJournals));
  remove_remote(address_.child(kOwner));
}

}  // namespace manta::train
