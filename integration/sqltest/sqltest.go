// Package sqltest tests retrysql on real databases: SQLite, PostgreSQL and
// MariaDB. It has nothing but tests.
package sqltest
