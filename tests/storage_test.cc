// Storage that cannot be written to, or cannot any more, through fit(): what the error says, and
// what can still be used.

#include <gmock/gmock.h>

#include "manta/base/temporary_folder_internal.h"
#include "process_tree.h"

namespace manta {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

struct StorageCase {
  const char* loss;
  const char* loop;
  const char* failures;            // how often the run starts again, which does not help
  std::vector<std::string> words;  // of the error
  const char* restored;            // the run's result when the storage is there again
};

void PrintTo(const StorageCase& c, std::ostream* out) { *out << c.loss << " " << c.loop; }

class StorageTest : public testing::TestWithParam<StorageCase> {};

// The last report is 11. One with the number 3 was committed before the loss.
INSTANTIATE_TEST_SUITE_P(
    Of, StorageTest,
    testing::Values(
        StorageCase{"never-writable",
                    "values",
                    "0",
                    {"creating the run folder '", "/run': Read-only file system",
                     "set RunConfig::storage_path to a folder that can be written to"},
                    ""},
        StorageCase{"read-only",
                    "values",
                    "0",
                    {"/.staging/", "Read-only file system; mount that file system so",
                     "/run, whose last checkpoint is checkpoint_000003; restore() goes on"},
                    "restored 11 from 4"},
        StorageCase{"read-only",
                    "values",
                    "-1",
                    {"/.staging'", "Read-only file system; mount that file system so",
                     "/run, whose last checkpoint is checkpoint_000003; restore() goes on"},
                    "restored 11 from 4"},
        StorageCase{"covered",
                    "values",
                    "2",
                    {"the run folder '", "/run' was removed or moved while the run went on",
                     "checkpoint_000003; once that folder is there again, restore() goes on"},
                    "restored 11 from 4"},
        StorageCase{
            "covered", "numbers", "2", {"/run' was removed or moved"}, "restored 11 from 0"},
        StorageCase{"moved",
                    "values",
                    "2",
                    {"/run' was removed or moved",
                     "checkpoint_000003; once that folder is there again, restore() goes on"},
                    "restored 11 from 4"},
        StorageCase{"full",
                    "values",
                    "2",
                    {"writing '", "/run/", "No space left on device; make room on that disk",
                     "whose last checkpoint is checkpoint_00000", "; restore() goes on from there"},
                    "restored 11 from [1-9]"},
        StorageCase{
            "full",
            "numbers",
            "-1",
            {"writing '", "/run/", "No space left on device; make room on that disk", "the run: "},
            "restored 11 from 0"}));

TEST_P(StorageTest, IsNamedAndWhatWasCommittedIsUsable) {
  TemporaryFolder disk, temporary;
  Program program(test_program("lost_storage"),
                  {disk.path(), GetParam().loss, GetParam().loop, GetParam().failures},
                  temporary.path());
  std::string failed = program.read_line(), restored = program.read_line();
  auto below = descendants(program.pid());
  program.wait();
  if (failed == "cannot mount") GTEST_SKIP() << "this process may not mount anything";
  EXPECT_THAT(failed, StartsWith("failed io: "));
  EXPECT_THAT(failed, HasSubstr(disk.path() + "/run"));
  for (const std::string& word : GetParam().words) EXPECT_THAT(failed, HasSubstr(word));
  EXPECT_THAT(restored, ContainsRegex(GetParam().restored));
  for (pid_t pid : below) EXPECT_TRUE(eventually([&] { return !is_running(pid); })) << pid;
  EXPECT_TRUE(eventually([&] { return temporary.entries().empty(); }));
}

}  // namespace
}  // namespace manta
