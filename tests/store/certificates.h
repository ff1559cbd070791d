#pragma once

#include <gtest/gtest.h>

#include <string>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/store/credentials.h"
#include "tests/support/command.h"

namespace argosy::testing {

// An authority that signs certificates for 127.0.0.1, in a temporary folder.
class TestAuthority {
 public:
  TestAuthority() {
    run(str_format(
        "openssl req -x509 -nodes -days 2 -subj /CN=authority {} -keyout "
        "{} -out {}",
        kKey,
        file("ca.key"),
        file("ca.pem")));
    write_file(file("names"), "subjectAltName=IP:127.0.0.1\n");
  }

  // Without a common name, which etcd would take for the name of a user.
  store::TlsFiles issue(const std::string& name) const {
    run(str_format(
        "openssl req -nodes -subj /O={} {} -keyout {} -out {}",
        name,
        kKey,
        file(name + ".key"),
        file(name + ".csr")));
    run(str_format(
        "openssl x509 -req -days 2 -in {} -CA {} -CAkey {} -CAcreateserial "
        "-extfile {} -out {}",
        file(name + ".csr"),
        file("ca.pem"),
        file("ca.key"),
        file("names"),
        file(name + ".pem")));
    return {
        .certificate = file(name + ".pem"),
        .key = file(name + ".key"),
        .ca = file("ca.pem")};
  }

 private:
  static constexpr char kKey[] =
      "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1";

  std::string file(const std::string& name) const {
    return (folder_.path() / name).string();
  }

  static void run(const std::string& command) {
    const CommandResult result = run_command(command);
    ASSERT_TRUE(result.status.success()) << command << "\n" << result.output;
  }

  TempDir folder_{"argosy-certificates"};
};

} // namespace argosy::testing
