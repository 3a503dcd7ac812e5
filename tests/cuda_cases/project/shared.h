#pragma once
void set_table();
int count_later();
int host_only(int x);
