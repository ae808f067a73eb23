#pragma once

/// The memory of this process and of everything below it now: the sum of their proportional set
/// sizes, in 10^6 bytes.
double tree_pss_mb();
