#pragma once

#include <memory>
#include <string>
#include <vector>

namespace arrow::io {
class OutputStream;
}

namespace manta::data {

/// A file in an OutputFolder that has no name yet.
class OutputFile {
 public:
  virtual ~OutputFile() = default;  ///< Drops the file, unless it was published.
  virtual const std::shared_ptr<arrow::io::OutputStream>& stream() const = 0;
  /// Closes the stream and gives the file its name, with all its content. `on_disk`: the file then
  /// survives a power cut.
  virtual void publish(bool on_disk) = 0;
};

/// A folder for new files, on this machine or at an address. Its errors do not name the writer.
class OutputFolder {
 public:
  virtual ~OutputFolder() = default;
  /// The files in it, and in folders below it, whose names end in one of these extensions, as
  /// readers of the folder find them: "a.csv", "b/c.csv".
  virtual std::vector<std::string> existing(const char* extensions) const = 0;
  virtual std::unique_ptr<OutputFile> create(const std::string& name) = 0;
  virtual void remove(const std::string& name) = 0;
};

/// Makes a local folder if it is not there.
std::unique_ptr<OutputFolder> open_output_folder(const std::string& path);

}  // namespace manta::data
