#pragma once

#include <string>

#include "argosy/common/environment.h"
#include "argosy/launch/options.h"
#include "argosy/store/credentials.h"
#include "argosy/store/kv.h"

// How the processes of a job get its secret; docs/security.md has the whole.
namespace argosy::launch {

// The credentials that the user gives: by flags, else by the environment. With
// --secret-stdin it blocks until the line is there. Throws InvalidArgument,
// naming flag or variable; TimeoutError.
store::Credentials given_credentials(
    const RunOptions& options, const Environment& environment);

// The secret of a job whose nodes were given none: that which the first of them
// has put into their store, and so as secret as the store.
store::Secret agree_on_secret(store::Kv& kv, const std::string& run_id);

// Whether all processes are on this host, so that this launcher may choose the
// secret alone.
bool is_one_host(const RunOptions& options);

// The environment in which workers find the credentials.
void pass_on(
    const store::Credentials& credentials,
    const store::OfferedSecret* offered,
    Environment& environment);

} // namespace argosy::launch
