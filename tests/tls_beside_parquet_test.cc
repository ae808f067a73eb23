// libparquet exports the functions of its own OpenSSL; TLS between hosts must not use those, nor
// may libparquet use ours.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/file_reader.h>

#include "manta/base/error_of_internal.h"
#include "manta/io/openssl_internal.h"
#include "manta/io/transport_pair_internal.h"

namespace manta {
namespace {

using testing::HasSubstr;

template <class F>
std::string library_of(F* function) {
  Dl_info info{};
  return ::dladdr(reinterpret_cast<void*>(function), &info) ? info.dli_fname : "(none)";
}

TEST(TlsBesideParquet, EachHasItsOwnOpenSsl) {
  ASSERT_THAT(library_of(&parquet::ParquetFileReader::OpenFile), HasSubstr("libparquet"));
  void* global = ::dlsym(RTLD_DEFAULT, "ERR_get_error");
  ASSERT_NE(global, nullptr);
  EXPECT_THAT(library_of(global), HasSubstr("libparquet"));
  EXPECT_THAT(library_of(openssl().ERR_get_error), HasSubstr("libcrypto.so.3"));
  EXPECT_EQ(::dlsym(RTLD_DEFAULT, "ERR_get_error"), global);  // loading ours has changed nothing
}

// Our libssl finds its errors in our libcrypto: the reason of a refusal arrives.
TEST(TlsBesideParquet, OursCallsItself) {
  auto [left, right] = tls_pair();
  OutBuffer out;
  out.push(1, std::string(100'000, 'x'));
  ASSERT_EQ(out.flush(*left), IoStatus::kDone);
  auto [client, server] = tcp_pair();
  TlsHandshake connects(TlsKey("another token of 32 bytes length"), std::move(client),
                        TlsHandshake::kConnects);
  TlsHandshake accepts(TlsKey(kTestToken), std::move(server), TlsHandshake::kAccepts);
  connects.step();
  EXPECT_THAT(message_of([&] { accepts.step(); }), HasSubstr("binder does not verify"));
}

}  // namespace
}  // namespace manta
