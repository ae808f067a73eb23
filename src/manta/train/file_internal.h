#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>

#include "manta/base/error_internal.h"
#include "manta/base/json.h"
#include "manta/base/json_input_internal.h"
#include "manta/io/unique_fd.h"

/// Files of a run folder. Its content is not trusted: it may have come from elsewhere. Links in it
/// are never followed, pipes are never waited for, and files are read within limits. The path of
/// the folder itself is the user's own and may lead over links.
namespace manta::train {

/// Throws Error(kIo) with `what`, the text of `errno`, and what the user can do about it.
[[noreturn]] void throw_file_errno(const std::string& what);

/// Whether the error means that a file is damaged or missing. Any other error (too many open files,
/// a disk that does not answer) says nothing about the file, and may be gone at the next try.
bool is_damage(const Error& error);

/// Throws Error(kInvalidArgument) saying that `name` cannot be `what`, unless it is a relative path
/// with '/' between its parts, none of which is empty, "." or "..": one that stays in its folder.
void check_relative_path(const std::string& name, const std::string& what);

/// Opens the file `name` ("a", or "a/b") in `folder`, with O_CREAT also a new file, whose mode is
/// that of the folder without the right to execute. Throws Error(kNotFound) if there is no such
/// file, Error(kCorrupt) if it is not a regular file, or if a part of the way is not a folder (but
/// a link, a pipe, a socket, ...); Error(kIo).
UniqueFd open_file(const std::string& folder, const std::string& name, int flags);

/// Throws Error(kCorrupt) that says what it is, unless the descriptor is that of a regular file.
/// Returns its size.
size_t check_regular(int fd, const std::string& path);

/// Throws Error(kCorrupt) if the file has another name (a hard link): appended data would change
/// that file, too.
void check_single_name(int fd, const std::string& path);

/// True if there is a folder of that name in it: not a link to one. Throws Error(kIo).
bool has_folder(const std::string& folder, const std::string& name);

/// Makes a folder that must not be there yet, with the mode of its parent (less the umask). Throws
/// Error(kIo).
void make_folder_anew(const std::string& path);

/// Makes the folder and those above it that are missing. Each gets the mode of its parent (less the
/// umask), so that everything in a private folder is private. Throws Error(kIo).
void make_folders(const std::string& path);

/// Makes `folder` as above, and in it the folders on the way to the file `name` ("a/b/file"), none
/// of which may be a link. Throws Error(kCorrupt) if one is anything but a folder; Error(kIo).
void make_folders_to(const std::string& folder, const std::string& name);
/// The same in a folder that must exist: a folder that was removed is not made again.
void make_folders_in(const std::string& folder, const std::string& name);

/// Writes all of `data`, in as many calls as it takes. Throws Error(kIo) naming `path`.
void write_all(int fd, const void* data, size_t size, const std::string& path);

/// Closes the file: some file systems report a full disk only here. Throws Error(kIo) naming
/// `path`.
void close_written(UniqueFd fd, const std::string& path);

/// The whole file. Throws as open_file, and Error(kCorrupt) if it has more bytes.
std::string read_text(const std::string& path, size_t most = size_t{1} << 30);

/// The file as JSON. Throws as open_file and parse_json.
Json read_json(const std::string& path, const JsonLimits& limits = {});

/// Replaces the file in one step: a reader sees the old or the new text, never a part. (The text is
/// written to a new file `path`.new, which is then renamed.) Throws Error(kIo) and leaves the old
/// file. `durable` waits until the disk has the new file; otherwise a power cut may leave either,
/// or neither.
void replace_file(const std::string& path, const std::string& text, bool durable = false);

/// Waits until everything written is on the disk: the content of a file, or the names in a folder.
/// Throws Error(kIo).
void sync_to_disk(int fd, const std::string& path);
void sync_to_disk(const std::string& path);
/// The same for everything in a folder, and the folder. Calls `on_part` after each part of a few
/// dozen MB.
void sync_tree_to_disk(const std::string& folder, const std::function<void()>& on_part);

/// JSON for a file: NaN becomes null and bytes that are not UTF-8 are replaced, instead of throwing
/// an error that means nothing to the user. `indent` as Json::dump.
std::string to_text(const Json& json, int indent = -1);

}  // namespace manta::train
